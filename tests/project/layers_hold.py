# SPDX-License-Identifier: Apache-2.0
"""Who may include whom (docs/architecture.md, "Folders and layers"), and what a layer may not do at all.

  layers_hold.py            checks the tree
  layers_hold.py --self     checks that this check finds each kind of violation
"""
import os
import re
import sys

import tree

# A folder may include itself and these. base/ and driver/ are at the bottom; tests/ and bench/ may include everything.
MAY_INCLUDE = {
    "base": (),
    "driver": (),
    "scheduler": (),
    "coalesce": (),
    "trace": ("base",),
    "wire": ("base", "driver"),
    "engine": ("base", "driver", "trace", "scheduler", "coalesce"),
    "shim": ("base", "driver", "wire", "trace", "scheduler", "coalesce", "engine"),
    "broker": ("base", "driver", "wire", "trace", "scheduler", "coalesce", "engine"),
    "cli": ("base", "driver", "wire", "trace", "scheduler", "coalesce", "engine", "broker"),
    "demo": ("base", "driver"),
}

# The scheduler has no clock, no threads and no I/O, so that it runs the same in a unit test and over a recorded trace.
# The coalescer is bytes in, bytes out. Neither they nor trace/ and base/ know CUDA.
FORBIDDEN_HEADERS = {
    "scheduler": {"time.h", "sys/time.h", "pthread.h", "threads.h", "unistd.h", "stdio.h", "dlfcn.h", "stdatomic.h"},
    "coalesce": {"time.h", "pthread.h", "threads.h", "unistd.h", "dlfcn.h", "cuda.h"},
}
# The system's decompressors are opened when an image needs one: the preload may need libc only at load time.
MAY_USE = {("coalesce/inflate.c", "dlfcn.h")}
NO_CUDA = ("base", "wire", "trace", "scheduler", "coalesce")
CUDA_CALL = re.compile(r"(?<![\w.>])cu[A-Z]\w*\s*\(")

# Code in other people's processes never ends them and never writes to their stdout. assert() aborts.
DEADLY = re.compile(r"(?<![\w.>])(exit|_exit|_Exit|quick_exit|abort|assert|err|errx|printf|vprintf|puts|putchar)\s*\(")
STDOUT = re.compile(r"\bstdout\b|\bSTDOUT_FILENO\b|(?<![\w.>])(?:write|dprintf|vdprintf)\s*\(\s*1\s*,")


def check_file(path, text):
    folder = path.split(os.sep)[0]
    complaints = []

    def complain(at, what):
        complaints.append(f"{path}:{tree.line_of(text, at)}: {what}")

    code = tree.code_only(text)
    if folder in MAY_INCLUDE:
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"\n]+)[>"]', text, re.M):
            if code[match.start():match.end()].strip() == "":
                continue  # in a comment
            bracket, header = match.groups()
            if bracket == '"':
                target = header.split("/")[0] if "/" in header else None
                if target is None:
                    complain(match.start(), f'"{header}": includes are written from the top of the tree')
                elif target != folder and target not in MAY_INCLUDE[folder]:
                    complain(match.start(), f'{folder}/ may not include "{header}"')
            elif header in FORBIDDEN_HEADERS.get(folder, ()) and (path, header) not in MAY_USE:
                complain(match.start(), f"{folder}/ may not include <{header}>")
    if folder in NO_CUDA:
        for match in CUDA_CALL.finditer(code):
            complain(match.start(), f"{folder}/ calls the driver: {match.group(0).rstrip('( ')}")
    if folder in tree.LOADED:
        for match in list(DEADLY.finditer(code)) + list(STDOUT.finditer(code)):
            complain(match.start(), f"'{match.group(0).strip()}' in code that is loaded into other programs")
    return complaints


# (file, text, what must be said; None: nothing)
SAMPLES = [
    ("scheduler/a.c", '#include "base/log.h"\n', 'may not include "base/log.h"'),
    ("scheduler/a.c", "#include <time.h>\n", "may not include <time.h>"),
    ("scheduler/a.c", '#include "scheduler/b.h"\n#include <string.h>\n', None),
    ("base/a.c", '#include "driver/driver.h"\n', "may not include"),
    ("trace/a.c", '#include "base/log.h"\n/* #include "engine/engine.h" */\n', None),
    ("engine/a.c", '#include "shim/shim.h"\n', "may not include"),
    ("engine/a.c", '#include "engine.h"\n', "from the top"),
    ("coalesce/a.c", "void f(void) { cuInit(0); }\n", "calls the driver: cuInit"),
    ("engine/a.c", "void f(void) { driver->cuInit(0); }\n", None),
    ("shim/a.c", "void f(void) { abort(); }\n", "'abort('"),
    ("shim/a.c", "void f(void) { assert(x); }\n", "'assert('"),
    ("shim/a.c", "/* never exit() */\nconst char *a = \"exit(1)\"; void g(void) { static_assert(1); snprintf(b); }\n", None),
    ("base/a.c", "void f(void) { fprintf(stdout, b); }\n", "stdout"),
    ("base/a.c", "void f(void) { write(1, b, 2); }\n", "write(1,"),
    ("demo/a.c", "int main(void) { printf(b); exit(0); }\n", None),
]


def check_itself():
    complaints = []
    for path, text, said in SAMPLES:
        found = check_file(path, text)
        if (said is None and found) or (said is not None and not any(said in f for f in found)):
            complaints.append(f"{path}: {text!r}: expected {said!r}, found {found}")
    return tree.finish(complaints, f"{len(SAMPLES)} samples are judged as they should be")


def main():
    if sys.argv[1:] == ["--self"]:
        return check_itself()
    complaints, count = [], 0
    for path in tree.files(".c", ".h", ".def", ".S"):
        complaints += check_file(path, tree.read(path))
        count += 1
    if not count:
        complaints.append("no source file found")
    return tree.finish(complaints, f"{count} files keep to their layers")


sys.exit(main())
