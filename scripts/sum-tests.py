#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up meson's test logs into one line: "N passed, N failed[, N skipped]".

  sum-tests.py [--failed NAME]... [--status FOLDER=STATUS]... TESTLOG.json...

A program counts as one test unless it says how many it holds: Criterion does with its "Synthesis" line, TAP with its
"ok" lines. A program that failed as a whole (time-out, crash, bad exit status) counts at least one failure, whatever it
said before. --failed adds one failure for a step outside of meson. --status tells that `meson test` itself ended with
this status, which is a failure even if its log names none: a rebuild that fails leaves no log at all.
"""
import argparse
import json
import os
import re
import sys

SYNTHESIS = re.compile(r"Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)")
CRITERION_SKIP = re.compile(r"^\[SKIP\]", re.M)
TAP_LINE = re.compile(r"^(not ok|ok)\b(.*)$", re.M)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def count_parts(entry):
    """(passed, failed, skipped) as the program itself says, or None if it is a single test."""
    out = ANSI.sub("", entry.get("stdout") or "")
    text = out + "\n" + ANSI.sub("", entry.get("stderr") or "")
    synthesis = SYNTHESIS.search(text)
    if synthesis:
        tested, passing, failing, _ = map(int, synthesis.groups())  # crashing ones are among the failing
        return passing, failing, len(CRITERION_SKIP.findall(text))
    if out.startswith("TAP version") or re.search(r"^1\.\.\d+", out, re.M):
        passed = failed = skipped = 0
        for verdict, rest in TAP_LINE.findall(out):
            if re.search(r"# *SKIP", rest, re.I):
                skipped += 1
            elif verdict == "ok" or re.search(r"# *TODO", rest, re.I):
                passed += 1
            else:
                failed += 1
        return passed, failed, skipped
    return None


def count(entry):
    good = entry["result"] in ("OK", "EXPECTEDFAIL")
    skip = entry["result"] in ("SKIP", "IGNORED")
    parts = count_parts(entry)
    if parts is None or sum(parts) == 0:
        return (1, 0, 0) if good else (0, 0, 1) if skip else (0, 1, 0)
    passed, failed, skipped = parts
    if not good and not skip and failed == 0:
        failed = 1
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--failed", action="append", default=[], metavar="NAME")
    parser.add_argument("--status", action="append", default=[], metavar="FOLDER=STATUS")
    parser.add_argument("logs", nargs="*")
    arguments = parser.parse_intermixed_args()

    total = [0, 0, 0]
    failures = list(arguments.failed)
    total[1] += len(failures)
    status = dict(item.rsplit("=", 1) for item in arguments.status)

    for path in arguments.logs:
        folder = os.path.dirname(os.path.dirname(path))
        failed_here = 0
        entries = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as log:
                entries = [json.loads(line) for line in log if line.strip()]
        for entry in entries:
            numbers = count(entry)
            total = [a + b for a, b in zip(total, numbers)]
            failed_here += numbers[1]
            if numbers[1]:
                failures.append(f"{folder}: {entry['name']}")
            elif numbers[2] and entry["result"] == "SKIP":
                reason = (entry.get("stdout") or entry.get("stderr") or "").strip().splitlines()
                print(f"skipped: {folder}: {entry['name']}: {reason[-1] if reason else 'no reason given'}")
        if failed_here == 0 and (not entries or folder in status):
            total[1] += 1
            failures.append(f"{folder}: " + ("no test ran" if not entries else f"meson test ended with {status[folder]}"))

    for name in failures:
        print(f"failed: {name}")
    passed, failed, skipped = total
    sys.stdout.flush()
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


sys.exit(main())
