# SPDX-License-Identifier: Apache-2.0
"""Each header compiles alone, and included twice.  headers_stand_alone.py CC..."""
import subprocess
import sys

import tree

FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wundef", "-Wstrict-prototypes", "-Werror",
         "-Wno-unused-parameter", "-Wno-missing-field-initializers", f"-I{tree.TOP}", "-fsyntax-only", "-x", "c", "-"]


def main():
    complaints = []
    headers = tree.files(".h")
    for header in headers:
        # A declaration behind it: a header that ends in the middle of one must not pass.
        source = f'#include "{header}"\n#include "{header}"\nint after_the_header;\n'
        result = subprocess.run([*sys.argv[1:], *FLAGS], input=source, capture_output=True, text=True, check=False)
        if result.returncode:
            complaints.append(f"{header} does not compile alone:\n{result.stderr}")
    if not headers:
        complaints.append("no header found")
    return tree.finish(complaints, f"{len(headers)} headers compile alone")


sys.exit(main())
