#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the oracle on the simulated device and compares each line with what a device answered.

usage: compare-oracle.py ORACLE EXPECTED EXCEPTIONS [GROUP...]

EXCEPTIONS holds regular expressions, one a line: lines (of either side) that they match may differ. Each must match
something that does differ, so that the list cannot outlive its reasons.
"""
import difflib
import re
import subprocess
import sys


def main():
    oracle, expected_file, exceptions_file, *groups = sys.argv[1:]
    expected = open(expected_file).read().splitlines()
    if groups:
        expected = [line for line in expected if re.split(r"[.:]", line)[0] in groups]
    exceptions = [line for line in open(exceptions_file).read().splitlines() if line and not line.startswith("#")]
    run = subprocess.run([oracle, *groups], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=150)
    got = run.stdout.splitlines()
    if run.returncode or not got:
        print(run.stderr[:2000])
        return 1
    used = set()
    wrong = []
    for line in difflib.unified_diff(expected, got, "a device", "the simulated device", lineterm="", n=0):
        if line.startswith(("---", "+++", "@@")):
            continue
        hits = [e for e in exceptions if re.match(e, line[1:])]
        used.update(hits)
        if not hits:
            wrong.append(line)
    for line in wrong[:60]:
        print(line)
    unused = [e for e in exceptions if e not in used and (not groups or e.split("\\.")[0] in groups)]
    for exception in unused:
        print("exception that is no longer needed:", exception)
    print(f"{len(got)} answers, {len(wrong)} differ")
    return 1 if wrong or unused else 0


sys.exit(main())
