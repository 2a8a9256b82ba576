#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios of one trap program on the real device in all modes, as TAP: real_device.py SHIM PROGRAM SCENARIO..."""
import os
import subprocess
import sys

# What sets the simulated driver up, or is a test of it.
ELSEWHERE = {
    "trap-03-two-dlsym-interposers-get-along": "needs another preload",
    "trap-03-functions-of-other-libraries-are-left-alone": "needs the decoy",
    "trap-10-without-a-known-layout-nothing-is-held": "needs an older driver",
    "trap-31-a-failure-at-issue-is-told-by-the-next-call": "needs a driver that fails on request",
    "trap-31-without-room-for-the-library-programs-run": "needs a driver that fails on request",
    "trap-31-without-markers-programs-run": "needs a driver that fails on request",
}
OPTIONS = {
    "trap-27-with-launch-blocking-nothing-is-held": ["--env", "CUDA_LAUNCH_BLOCKING=1"],
    "trap-03-a-path-with-spaces-works": ["--spaces"],
}
MODES = ("direct", "full", "gate", "held")


def main():
    shim, program, *scenarios = sys.argv[1:]
    run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.py")
    failed = number = 0
    print(f"1..{len(scenarios) * len(MODES)}")
    for scenario in scenarios:
        for mode in MODES:
            number += 1
            if scenario in ELSEWHERE:
                print(f"ok {number} {scenario}-{mode} # SKIP {ELSEWHERE[scenario]}")
                continue
            done = subprocess.run([sys.executable, run, "--mode", mode, "--shim", shim, *OPTIONS.get(scenario, []),
                                   program, scenario], stdout=subprocess.PIPE, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if not line.startswith("expect ")]
            if done.returncode == 77:
                print(f"ok {number} {scenario}-{mode} # SKIP {lines[-1] if lines else ''}")
                continue
            print(f"{'not ok' if done.returncode else 'ok'} {number} {scenario}-{mode}", flush=True)
            if done.returncode:
                failed += 1
                print("\n".join("# " + line for line in lines))
    return 1 if failed else 0


sys.exit(main())
