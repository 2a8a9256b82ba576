# SPDX-License-Identifier: Apache-2.0
"""Checks that need a tool which may be absent.  tools.py spelling | shell-scripts | format"""
import re
import shutil
import subprocess
import sys

import tree

# Laid out by hand, as tables: one row a line reads better than what a formatter makes of it.
NOT_FORMATTED = {"driver/cuda_api.h", "driver/params.h"}


def skip(reason):
    print(reason)
    return 77


def run(command, paths, fine):
    result = subprocess.run([*command, *paths], cwd=tree.TOP, capture_output=True, text=True, check=False)
    print((result.stdout + result.stderr)[-8000:] or fine)
    return 1 if result.returncode else 0


def spelling():
    if not shutil.which("codespell"):
        return skip("codespell is not installed")
    paths = [p for p in tree.files() if not p.endswith((".fatbin", ".cubin", ".bin", ".gz"))]
    return run(["codespell"], paths, f"{len(paths)} files have no known misspelling")


def shell_scripts():
    if not shutil.which("shellcheck"):
        return skip("shellcheck is not installed")
    paths = []
    for path in tree.files():
        with open(f"{tree.TOP}/{path}", "rb") as file:
            first = file.readline(100)
        if path.endswith(".sh") or re.match(rb"#!.*\b(ba|da)?sh\b", first):
            paths.append(path)
    return run(["shellcheck", "-x"], paths, f"shellcheck has nothing to say on {len(paths)} scripts")


def format_():
    # Another version lays code out differently; 14 is Debian 12's.
    for tool in ("clang-format-14", "clang-format"):
        if shutil.which(tool):
            version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
            if re.search(r"version 14\.", version):
                paths = [p for p in tree.files(".c", ".h") if p not in NOT_FORMATTED]
                return run([tool, "--dry-run", "-Werror"], paths, f"{len(paths)} files are formatted")
    return skip("clang-format 14 is not installed")


sys.exit({"spelling": spelling, "shell-scripts": shell_scripts, "format": format_}[sys.argv[1]]())
