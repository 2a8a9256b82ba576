# SPDX-License-Identifier: Apache-2.0
"""What the dynamic linker sees of libcoissue.so.

  preload_library.py needs-only-libc LIBRARY     depends on libc alone, runs nothing when it is loaded or unloaded
  preload_library.py exports-match LIBRARY       exports the functions of driver/entries.def that it stands in for, and dlsym
"""
import os
import re
import subprocess
import sys

import tree

# Every process of a user may have the library in it, so a process that never uses CUDA must not notice it: nothing
# further is loaded (a library that needed libcuda.so.1 would keep bash from starting where there is none) and no code
# runs before the first call. One pointer each is the toolchain's own: frame_dummy and __do_global_dtors_aux.
ALLOWED_NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
POINTER = 8

# Programs are linked to either of two versions of dlsym, depending on the glibc that they were built with.
DLSYM = {"x86_64": {"dlsym@GLIBC_2.2.5", "dlsym@GLIBC_2.34"}, "aarch64": {"dlsym@GLIBC_2.17", "dlsym@GLIBC_2.34"}}


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


def needs_only_libc(library):
    complaints = []
    dynamic = output_of("readelf", "-W", "-d", library)
    needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", dynamic))
    if needed & {"libasan.so.8", "libtsan.so.2", "libubsan.so.1"}:
        print("built with a sanitizer, whose run-time it needs")
        return 77
    for name in sorted(needed - ALLOWED_NEEDED):
        complaints.append(f"needs {name}")
    # A name of its own is fine; that of the driver would make the loader take us for it.
    for name in re.findall(r"\(SONAME\)\s+Library soname: \[(.*?)\]", dynamic):
        if name != "libcoissue.so":
            complaints.append(f"has the SONAME {name}")
    for tag in ("TEXTREL", "RPATH", "RUNPATH", "PREINIT_ARRAY"):
        if f"({tag})" in dynamic:
            complaints.append(f"has a {tag} entry")
    sections = output_of("readelf", "-W", "-S", library)
    sizes = {name: int(size, 16) for name, size in
             re.findall(r"\]\s+(\.\S+)\s+\S+\s+[0-9a-f]+\s+[0-9a-f]+\s+([0-9a-f]+)", sections)}
    if ".text" not in sizes:
        complaints.append(f"readelf's list of sections was not understood: {sections[:200]}")
    for section in (".init_array", ".fini_array"):
        if sizes.get(section, 0) > POINTER:
            complaints.append(f"{section} has {sizes[section] // POINTER} entries: a constructor or destructor of ours")
    for section in (".ctors", ".dtors", ".preinit_array"):
        if sizes.get(section, 0):
            complaints.append(f"has a section {section}")
    if re.search(r"\bGNU_STACK\b.*\bRWE\b", output_of("readelf", "-W", "-l", library)):
        complaints.append("asks for an executable stack")
    return tree.finish(complaints, f"needs {', '.join(sorted(needed))}; no constructor, no destructor")


def read_rows():
    text = re.sub(r"/\*.*?\*/", "", tree.read("driver/entries.def"), flags=re.S)
    return {symbol: (cls, how) for symbol, cls, how in re.findall(r"^CU_ENTRY\((\w+), (\w+), (\w+),", text, re.M)}


def exports_match(library):
    complaints = []
    rows = read_rows()
    exported = set()
    for line in output_of("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        if kind == "A":  # the name of a version, not a symbol
            continue
        # Only dlsym's version matters: a driver function is looked up without one.
        exported.add(name.replace("@@", "@") if name.startswith("dlsym@") else name.split("@")[0])
    # An ANSWER function with no code of its own is left to the driver: the shim does not stand in its way at all.
    wanted = {symbol for symbol, (cls, how) in rows.items() if cls != "ANSWER" or how == "HAND"}
    wanted |= DLSYM.get(os.uname().machine, set())
    for name in sorted(wanted - exported):
        complaints.append(f"{name} is not exported")
    for name in sorted(exported - wanted):
        complaints.append(f"{name} is exported, and " + ("its row says ANSWER, AUTO" if name in rows else "no row has it"))
    return tree.finish(complaints, f"{len(exported)} symbols, as the table says")


def main():
    what, library = sys.argv[1:]
    return {"needs-only-libc": needs_only_libc, "exports-match": exports_match}[what](library)


sys.exit(main())
