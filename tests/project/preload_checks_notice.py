# SPDX-License-Identifier: Apache-2.0
"""preload_library.py must find each kind of fault. Small libraries with one fault each.  preload_checks_notice.py CC..."""
import os
import re
import subprocess
import sys
import tempfile

import tree

CHECK = os.path.join(tree.TOP, "tests", "project", "preload_library.py")

# (what the library is, source, linker flags, what must be said; None: it is fine)
SAMPLES = [
    ("plain", "int f(void) { return 1; }", [], None),
    ("needs libm", "double sin(double); double f(double x) { return sin(x); }", ["-Wl,--no-as-needed", "-lm"], "needs libm"),
    ("with a constructor", "int x; __attribute__((constructor)) static void c(void) { x = 1; }", [], ".init_array has 2"),
    ("with a destructor", "int x; __attribute__((destructor)) static void c(void) { x = 1; }", [], ".fini_array has 2"),
    ("with the driver's name", "int f(void) { return 1; }", ["-Wl,-soname,libcuda.so.1"], "SONAME libcuda.so.1"),
]


def run(*arguments):
    result = subprocess.run([sys.executable, CHECK, *arguments], capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def main():
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        def build(source, flags):
            path, library = os.path.join(folder, "x.c"), os.path.join(folder, "x.so")
            with open(path, "w", encoding="utf-8") as file:
                file.write(source)
            subprocess.run([*sys.argv[1:], "-shared", "-fPIC", path, "-o", library, *flags], check=True)
            return library

        for what, source, flags, said in SAMPLES:
            status, text = run("needs-only-libc", build(source, flags))
            if status != (0 if said is None else 1) or (said or "") not in text:
                complaints.append(f"a library {what}: status {status}, expected {said!r}: {text}")

        # A library that exports what it should, then one name less, then one more.
        rows = re.findall(r"^CU_ENTRY\((\w+), (\w+), (\w+),", tree.read("driver/entries.def"), re.M)
        names = [symbol for symbol, cls, how in rows if cls != "ANSWER" or how == "HAND"]
        old = "GLIBC_2.2.5" if os.uname().machine == "x86_64" else "GLIBC_2.17"
        versions = os.path.join(folder, "x.map")
        dlsym = (f'__asm__(".symver old_dlsym, dlsym@{old}\\n.symver new_dlsym, dlsym@@GLIBC_2.34");\n'
                 "void *old_dlsym(void *h, const char *n) { return 0; }\nvoid *new_dlsym(void *h, const char *n) { return 0; }\n")

        def exporting(symbols):
            with open(versions, "w", encoding="utf-8") as file:
                file.write(f"COISSUE {{ global: cu*; local: *; }};\n{old} {{ }};\nGLIBC_2.34 {{ }};\n")
            source = dlsym + "".join(f"int {symbol}(void) {{ return 1; }}\n" for symbol in symbols)
            return build(source, [f"-Wl,--version-script={versions}"])

        for what, symbols, said in (("all names", names, None),
                                    ("one name less", names[1:], f"{names[0]} is not exported"),
                                    ("one name more", names + ["cuNew"], "cuNew is exported, and no row has it"),
                                    ("an answer", names + ["cuDeviceGetCount"], "cuDeviceGetCount is exported, and its row")):
            status, text = run("exports-match", exporting(symbols))
            if status != (0 if said is None else 1) or (said or "") not in text:
                complaints.append(f"{what}: status {status}, expected {said!r}: {text[:500]}")
    return tree.finish(complaints, f"{len(SAMPLES) + 4} libraries are judged as they should be")


sys.exit(main())
