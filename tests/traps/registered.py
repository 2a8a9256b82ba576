#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every scenario of a trap program is a test, and every test is in README.md.

  registered.py README.md PROGRAM SCENARIO... [-- PROGRAM SCENARIO...]...
"""
import subprocess
import sys


def groups(arguments):
    group = []
    for argument in arguments:
        if argument == "--":
            yield group
            group = []
        else:
            group.append(argument)
    yield group


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        readme = file.read()
    wrong = []
    for program, *registered in groups(sys.argv[2:]):
        usage = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False).stdout
        there = {line.strip() for line in usage.splitlines() if line.startswith(("  trap-", "  packs-"))}
        wrong += [f"{name} is in {program}, but is no test" for name in sorted(there - set(registered))]
        wrong += [f"{name} is a test, but not in {program}" for name in sorted(set(registered) - there)]
        wrong += [f"{name} is not in README.md" for name in sorted(there) if f"`{name}`" not in readme]
        if not there:
            wrong.append(f"{program} names no scenario")
    for number in range(1, 41):
        if f"trap-{number:02}-" not in readme:
            wrong.append(f"README.md has no test for trap {number}")
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
