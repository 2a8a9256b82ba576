# SPDX-License-Identifier: Apache-2.0
"""Compares what driver/cuda_api.h declares with a real cuda.h.

  layouts_match_cuda_h.py TOP CC...

From cuda_api.h a list is made of every handle, integer type, callback, structure, member and constant. One program
prints sizes, offsets and values of that list as our header has them, another as cuda.h has them. Then the same is done
with copies of our header in which something is wrong, to see that it would have been noticed.
"""
import os
import re
import subprocess
import sys
import tempfile

# Members that the real structures do not have: ours only, for alignment.
OURS = {("CUlaunchAttributeValue", "align_")}

# Wrong on purpose: (text, replacement, what the report must name)
MISTAKES = [
    ("CU_EVENT_INTERPROCESS = 4", "CU_EVENT_INTERPROCESS = 8", "CU_EVENT_INTERPROCESS"),
    ("R(600, CUDA_ERROR_NOT_READY", "R(601, CUDA_ERROR_NOT_READY", "CUDA_ERROR_NOT_READY"),
    ("#define CU_STREAM_PER_THREAD ((CUstream)0x2)", "#define CU_STREAM_PER_THREAD ((CUstream)0x3)", "CU_STREAM_PER_THREAD"),
    ("char pad[64];", "char pad[72];", "CUlaunchAttributeValue"),
    ("    unsigned int sharedMemBytes;\n    CUstream hStream;", "    CUstream hStream;\n    unsigned int sharedMemBytes;",
     "CUlaunchConfig, hStream"),
    ("            cuuint32_t value;", "            cuuint64_t value;", "CUstreamBatchMemOpParams, waitValue.value"),
    ("typedef unsigned int CUdeviceptr_v1;", "typedef unsigned long CUdeviceptr_v1;", "CUdeviceptr_v1"),
]


def members(body):
    """Names of the members of a structure's body, 'inner.name' for those of a named structure within."""
    names = []
    at = 0
    while at < len(body):
        inner = re.compile(r"\s*(?:struct|union)\s*\{").match(body, at)
        if inner:
            depth, end = 1, inner.end()
            while depth:
                depth += {"{": 1, "}": -1}.get(body[end], 0)
                end += 1
            semicolon = body.index(";", end)
            outer = [n.strip() for n in body[end:semicolon].split(",") if n.strip()]
            below = members(body[inner.end():end - 1])
            names += outer + [f"{o}.{b}" for o in outer for b in below] if outer else below
            at = semicolon + 1
            continue
        semicolon = body.find(";", at)
        if semicolon < 0:
            assert not body[at:].strip(), body[at:]
            break
        for declarator in body[at:semicolon].split(","):
            names.append(re.search(r"(\w+)\s*(?:\[.*\])?\s*$", declarator).group(1))
        at = semicolon + 1
    return names


def make_list(header):
    """The lines SIZE(..), INTEGER(..), FIELD(..), VALUE(..), POINTER(..) of a header in the style of cuda_api.h."""
    text = re.sub(r"/\*.*?\*/", "", open(header, encoding="utf-8").read(), flags=re.S)
    text = re.sub(r" *\\\n", "\n", text)
    text = text[text.index("#else"):text.rindex("#endif")]
    text = text[:text.rindex("#endif")]
    lines = []

    def of_macro(name, pattern):
        body = re.search(rf"#define {name}\(\w\)\n((?:.*\n)*?)(?=#define|typedef)", text).group(1)
        found = re.findall(pattern, body)
        assert len(found) > 10, name
        return found

    lines += [f"SIZE({n})" for n in of_macro("CU_HANDLES", r"\bH\((\w+)\)")]
    lines += [f"INTEGER({n})" for n in of_macro("CU_PLAIN_ENUMS", r"\bE\((\w+)\)")]
    lines += [f"VALUE({n})" for n in of_macro("CU_RESULTS", r"\bR\(\d+, (\w+),")]
    lines += [f"POINTER({n})" for n in re.findall(r"#define (CU_\w+) \(\(\w+ ?\*?\)0x\w+\)", text)]
    lines += [f"INTEGER({n})" for n in re.findall(r"typedef (?:unsigned |long |int |u?int\d+_t |cuuint\d+_t )+(CU\w+|cu\w+);", text)]
    lines += [f"SIZE({n})" for n in re.findall(r"typedef \w+ \(\*(\w+)\)\(", text)]
    lines += [f"INTEGER({n})" for n in ("CUresult", *re.findall(r"typedef enum \w+ \{[^}]*\} (\w+);", text))]
    for body in re.findall(r"\benum(?: \w+)? \{([^}]*)\}", text):
        lines += [f"VALUE({n})" for n in re.findall(r"\b(CU\w+) = ", body)]
        assert body.count("=") == len(re.findall(r"\b(CU\w+) = ", body)) or "CU_RESULT" in body, body
    found = 0
    for start in re.finditer(r"typedef (?:struct|union) \w+ \{", text):
        depth, end = 1, start.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        name = re.match(r"\s*(\w+);", text[end:]).group(1)
        lines.append(f"SIZE({name})")
        lines += [f"FIELD({name}, {m})" for m in members(text[start.end():end - 1]) if (name, m) not in OURS]
        found += 1
    assert found == text.count("typedef struct ") + text.count("typedef union ") - len(
        re.findall(r"typedef struct \S+ \*?\w+;", text)), "a structure was not understood"
    return list(dict.fromkeys(lines))


PROGRAM = """
#include <stdio.h>
#include <stddef.h>
#include <stdint.h>
%s
#define SIZE(T) printf("%%s: size %%zu\\n", #T, sizeof(T));
#define INTEGER(T) printf("%%s: size %%zu, %%s\\n", #T, sizeof(T), (T)-1 < (T)1 ? "signed" : "unsigned");
#define FIELD(T, m) printf("%%s, %%s: offset %%zu, size %%zu\\n", #T, #m, offsetof(T, m), sizeof(((T *)0)->m));
#define VALUE(c) printf("%%s: %%lld\\n", #c, (long long)(c));
#define POINTER(c) printf("%%s: %%ju\\n", #c, (uintmax_t)(uintptr_t)(c));
int main(void)
{
#include "list.def"
    return 0;
}
"""


def run_program(compiler, folder, name, includes, flags):
    source, program = os.path.join(folder, name + ".c"), os.path.join(folder, name)
    with open(source, "w", encoding="utf-8") as file:
        file.write(PROGRAM % includes)
    result = subprocess.run([*compiler, "-std=gnu17", "-w", f"-I{folder}", *flags, source, "-o", program],
                            capture_output=True, text=True, check=False)
    if result.returncode:
        return None, result.stderr
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines(), ""


def compare(header, compiler, top, include, folder):
    """Lines that say what differs, and how many things were compared."""
    lines = make_list(header)
    with open(os.path.join(folder, "list.def"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    ours, error = run_program(compiler, folder, "ours", f'#include "{header}"', [f"-I{top}"])
    if ours is None:
        return ["our header does not compile: " + error], 0
    theirs, error = run_program(compiler, folder, "theirs", "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
                                "#include <cudaProfiler.h>", [f"-I{include}"])
    if theirs is None:
        return ["cuda.h lacks something that cuda_api.h declares: " + error], 0
    return [f"cuda_api.h has '{o}', cuda.h has '{t}'" for o, t in zip(ours, theirs) if o != t], len(lines)


def main():
    top, compiler = sys.argv[1], sys.argv[2:]
    header = os.path.join(top, "driver", "cuda_api.h")
    tool = subprocess.run([os.path.join(top, "scripts", "find-toolkit.sh")], capture_output=True, text=True, check=False)
    if tool.returncode:
        print(tool.stderr.strip())
        return 77
    include = tool.stdout.strip()
    with open(os.path.join(include, "cuda.h"), encoding="utf-8") as file:
        version = int(re.search(r"#define CUDA_VERSION (\d+)", file.read()).group(1))
    if version // 1000 != 13:
        print(f"cuda_api.h is for CUDA 13, the toolkit in {include} has version {version}")
        return 77

    with tempfile.TemporaryDirectory() as folder:
        differences, count = compare(header, compiler, top, include, folder)
        for line in differences:
            print(line)
        if differences:
            return 1
        text = open(header, encoding="utf-8").read()
        for old, new, name in MISTAKES:
            wrong = os.path.join(folder, "wrong.h")
            if old not in text:
                print(f"this test's list of mistakes is out of date: no '{old}' in cuda_api.h")
                return 1
            with open(wrong, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new, 1))
            differences, _ = compare(wrong, compiler, top, include, folder)
            if not any(name in line for line in differences):
                print(f"not noticed: '{old}' replaced by '{new}': {differences}")
                return 1
    print(f"{count} sizes, offsets and values are equal, and {len(MISTAKES)} mistakes were noticed")
    return 0


sys.exit(main())
