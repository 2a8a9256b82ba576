#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares driver/entries.def with NVIDIA's own words, and checks that its rows are well formed.

  check-entries.py [--include FOLDER] [--stub LIBCUDA] [--rows-only] [ENTRIES.DEF]

Without --include and --stub the toolkit that scripts/find-toolkit.sh finds is used. No toolkit: the rows are checked
by themselves, and the exit status is 77 (skipped) if they are fine. Status 1: something is wrong, one line for each.

The table was made for CUDA 13.0. A toolkit of another version may have functions that the table lacks: they are listed,
not errors. docs/adding-an-entry.md says what they mean and how to add them.
"""
import argparse
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE_VERSION = 13000

CLASSES = {"ANSWER", "QUEUE", "LAUNCH", "LANE", "EVENT", "CONTEXT", "ALL"}
HOWS = {"AUTO", "HAND"}

# Functions that take a stream and only ask about it: no held launch changes what they answer.
QUERIES = {
    "cuStreamGetPriority", "cuStreamGetDevice", "cuStreamGetFlags", "cuStreamGetId", "cuStreamGetCtx",
    "cuStreamGetCtx_v2", "cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2",
    "cuStreamGetCaptureInfo_v3", "cuStreamGetAttribute", "cuStreamGetGreenCtx", "cuStreamGetDevResource",
}


def split_commas(text):
    """Splits at commas outside of parentheses."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last or parts else []


def normal_type(text):
    """One spelling for a type: `const T *` and `T const*`, `unsigned` and `unsigned int`, arrays as pointers."""
    text = re.sub(r"\b(struct|enum|union)\b", " ", text)
    text = text.replace("*", " * ")
    words = text.split()
    stars = words.index("*") if "*" in words else len(words)
    base, pointer = words[:stars], words[stars:]
    if base == ["unsigned"]:
        base = ["unsigned", "int"]
    base = sorted(w for w in base if w == "const") + [w for w in base if w != "const"]
    return " ".join(base + pointer)


class Row:
    def __init__(self, line, number):
        self.number = number
        inside = re.fullmatch(r"CU_ENTRY\((.*)\)", line.strip())
        fields = split_commas(inside.group(1)) if inside else []
        if len(fields) != 5:
            raise ValueError("not of the form CU_ENTRY(symbol, CLASS, HOW, KEY, Pn(...))")
        self.symbol, self.cls, self.how, self.key, params = fields
        shape = re.fullmatch(r"P(\d+)\((.*)\)", params)
        if not shape:
            raise ValueError(f"parameters are not Pn(type, name, ...): {params}")
        parts = split_commas(shape.group(2))
        if len(parts) != 2 * int(shape.group(1)):
            raise ValueError(f"P{shape.group(1)} has {len(parts)} fields, not {2 * int(shape.group(1))}")
        self.types = [normal_type(t) for t in parts[0::2]]
        self.names = parts[1::2]


def read_table(path, complain):
    rows = {}
    text = open(path, encoding="utf-8").read()
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            row = Row(line, number)
        except ValueError as error:
            complain(f"{path}:{number}: {error}")
            continue
        if row.symbol in rows:
            complain(f"{path}:{number}: {row.symbol} stands in line {rows[row.symbol].number} already")
        rows[row.symbol] = row
    if not rows:
        complain(f"{path}: no row found")
    return rows


def check_row(row, complain_row):
    """What can be said of a row without knowing the driver."""
    def complain(text):
        complain_row(row, text)

    if row.cls not in CLASSES:
        complain(f"unknown class {row.cls}")
    if row.how not in HOWS:
        complain(f"{row.how} is neither AUTO nor HAND")
    key = re.fullmatch(r"NONE|(STREAM|PTSTREAM|EVENT)\((\w+)\)", row.key)
    if not key:
        complain(f"unknown key {row.key}")
        return
    kind, parameter = key.group(1), key.group(2)
    if parameter is not None:
        want = "CUevent" if kind == "EVENT" else "CUstream"
        if parameter == "0":
            # The synchronous _ptds twins: no parameter, but the calling thread's own stream.
            if kind != "PTSTREAM" or not row.symbol.endswith("_ptds"):
                complain(f"{row.key}: only a _ptds function means a stream without naming it")
        elif parameter not in row.names:
            complain(f"key names '{parameter}', which is no parameter")
        elif row.types[row.names.index(parameter)] != want:
            complain(f"key names '{parameter}', which is a {row.types[row.names.index(parameter)]}, not a {want}")
    per_thread = row.symbol.endswith(("_ptsz", "_ptds"))
    if kind == "STREAM" and per_thread:
        complain("a _ptsz or _ptds function needs PTSTREAM, not STREAM")
    if kind == "PTSTREAM" and not per_thread:
        complain("only a _ptsz or _ptds function has a PTSTREAM key")
    if row.how == "AUTO":
        if row.cls in ("LANE", "QUEUE") and kind not in ("STREAM", "PTSTREAM"):
            complain(f"an AUTO row of class {row.cls} needs a STREAM or PTSTREAM key")
        if row.cls == "EVENT" and kind != "EVENT":
            complain("an AUTO row of class EVENT needs an EVENT key")
    if row.cls == "LAUNCH" and row.how != "HAND":
        complain("a row of class LAUNCH is written by hand")
    base = re.sub(r"_ptsz$|_ptds$", "", row.symbol)
    if "CUstream" in row.types:
        if kind not in ("STREAM", "PTSTREAM"):
            complain("takes a stream, but has no STREAM or PTSTREAM key")
        if row.cls == "ANSWER" and base not in QUERIES:
            complain("takes a stream and is ANSWER, but is not in the list of queries of check-entries.py")


def check_twins(rows, complain_row):
    """f and f_ptsz differ in the meaning of stream 0 and in nothing else."""
    for row in rows.values():
        base = rows.get(re.sub(r"_ptsz$|_ptds$", "", row.symbol))
        if base is None or base is row:
            continue
        if (row.cls, row.how, row.types) != (base.cls, base.how, base.types):
            complain_row(row, f"class, way or types differ from those of {base.symbol}")


def read_header(include):
    """{function: [types]} of cuda.h and cudaProfiler.h, every version, and CUDA_VERSION."""
    source = "#include <cuda.h>\n#include <cudaProfiler.h>\nint version_is = CUDA_VERSION;\n"
    command = [os.environ.get("CC", "cc"), "-E", "-P", "-x", "c", "-D__CUDA_API_VERSION_INTERNAL", f"-I{include}", "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text, flags=re.S)
    version = int(re.search(r"version_is = (\d+)", text).group(1))
    functions = {}
    for match in re.finditer(r"\bCUresult\s+(cu\w+)\s*\(([^;{]*)\)\s*;", text):
        types = []
        for parameter in split_commas(match.group(2)):
            if parameter == "void":
                continue
            array = re.search(r"\[\w*\]\s*$", parameter)
            parameter = re.sub(r"\[\w*\]\s*$", "", parameter)
            type_, name = re.fullmatch(r"(.*?)(\b\w+)?\s*", parameter, re.S).groups()
            if not type_.strip():  # a type alone, no name
                type_, name = name, None
            types.append(normal_type(type_ + (" *" if array else "")))
        functions[match.group(1)] = types
    if not functions:
        raise ValueError(f"no function found in {include}/cuda.h")
    return functions, version


def read_exports(stub):
    text = subprocess.run(["nm", "-D", "--defined-only", stub], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in text.splitlines() if line.split()[-2:-1] in (["T"], ["W"], ["i"])}
    names = {name for name in names if re.match(r"cu[A-Z]", name)}
    if not names:
        raise ValueError(f"{stub} exports no cu* function")
    return names


def find_toolkit(*options):
    tool = os.path.join(TOP, "scripts", "find-toolkit.sh")
    result = subprocess.run([tool, *options], capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", help="folder of cuda.h")
    parser.add_argument("--stub", help="a libcuda.so to compare the names with")
    parser.add_argument("--rows-only", action="store_true", help="do not look for a toolkit")
    parser.add_argument("table", nargs="?", default=os.path.join(TOP, "driver", "entries.def"))
    arguments = parser.parse_args()

    complaints, notes = [], []
    rows = read_table(arguments.table, complaints.append)

    def complain_row(row, text):
        complaints.append(f"{arguments.table}:{row.number}: {row.symbol}: {text}")

    for row in rows.values():
        check_row(row, complain_row)
    check_twins(rows, complain_row)

    include, stub = arguments.include, arguments.stub
    if not arguments.rows_only and not include and not stub:
        include, stub = find_toolkit(), find_toolkit("--stub")

    version = TABLE_VERSION
    if include:
        functions, version = read_header(include)
        # What a toolkit of another version has or lacks is no fault of the table.
        absent = complaints if version == TABLE_VERSION else notes
        for symbol, row in rows.items():
            if symbol not in functions:
                absent.append(f"{symbol}: in the table, not in {include}/cuda.h")
            elif functions[symbol] != row.types:
                complain_row(row, f"the header has ({', '.join(functions[symbol])}), the row ({', '.join(row.types)})")
        for symbol in sorted(set(functions) - set(rows)):
            absent.append(f"{symbol}: in {include}/cuda.h, not in the table")
    if stub:
        exports = read_exports(stub)
        absent = complaints if version == TABLE_VERSION else notes
        for symbol in sorted(exports - set(rows)):
            absent.append(f"{symbol}: exported by {stub}, not in the table")
        for symbol in sorted(set(rows) - exports):
            absent.append(f"{symbol}: in the table, not exported by {stub}")

    for note in notes:
        print(f"note: CUDA {version} against a table for {TABLE_VERSION}: {note}")
    for complaint in complaints:
        print(complaint)
    if complaints:
        return 1
    compared = [what for what, path in (("cuda.h", include), ("a stub libcuda.so", stub)) if path]
    if not compared and not arguments.rows_only:
        print(f"{len(rows)} rows are well formed; not compared with cuda.h: no CUDA toolkit found")
        return 77
    print(f"{len(rows)} rows are well formed" + (f" and match {' and '.join(compared)}" if compared else ""))
    return 0


sys.exit(main())
