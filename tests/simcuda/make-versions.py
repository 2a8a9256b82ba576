#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes versions.def: from which CUDA version on a name means which exported symbol.

usage: make-versions.py ENTRIES_DEF cudaTypedefs.h cudaProfilerTypedefs.h > versions.def

These headers of a toolkit have a PFN_<name>_v<version>[_ptsz|_ptds] for each. The symbols of a name are name, name_v2,
name_v3, ...; where the header has fewer versions than there are symbols, the oldest symbols are older than the header
tells, and get version 2000.
"""
import re
import sys


def main():
    entries = open(sys.argv[1]).read()
    typedefs = "".join(open(name).read() for name in sys.argv[2:])
    symbols = re.findall(r"^CU_ENTRY\((\w+),", entries, re.M)
    versions = {}  # (base, suffix) -> set of versions
    for base, version, suffix in re.findall(r"\bPFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\b", typedefs):
        versions.setdefault((base, suffix), set()).add(int(version))

    families = {}  # (base, suffix) -> [(n, symbol)]
    for symbol in symbols:
        base, suffix = symbol, ""
        found = re.search(r"(_ptsz|_ptds)$", base)
        if found:
            suffix = found.group(1)
            base = base[: found.start()]
        number = 1
        found = re.search(r"_v(\d)$", base)
        if found:
            number = int(found.group(1))
            base = base[: found.start()]
        families.setdefault((base, suffix), []).append((number, symbol))

    print("/* SPDX-License-Identifier: Apache-2.0")
    print(" *")
    print(" * Made by make-versions.py; do not edit. SIM_VERSION(name, is per-thread form, from this version on, symbol)")
    print(" */")
    for (base, suffix), members in families.items():
        known = sorted(versions.get((base, suffix), []), reverse=True)
        members.sort(reverse=True)
        if len(known) > len(members):
            sys.stderr.write(f"{base}{suffix}: {len(known)} versions but {len(members)} symbols\n")
        for i, (_, symbol) in enumerate(members):
            version = known[i] if i < len(known) else 2000
            print(f'SIM_VERSION("{base}", {1 if suffix else 0}, {version}, {symbol})')
    print("#undef SIM_VERSION")


main()
