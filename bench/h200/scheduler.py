#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs scheduler_cost and keeps its figures with the commit, the machine and the date.

    scheduler.py --program build/bench/scheduler_cost --json OUT.json --commit HASH
"""

import argparse
import json
import subprocess
import sys

import report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="scheduler_cost, as it was built")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--json", help="where the result goes; the standard output without it")
    options = parser.parse_args()
    run = subprocess.run([options.program], capture_output=True, text=True, check=False)
    sys.stderr.write(run.stderr)
    if run.returncode != 0:
        return run.returncode
    figures = json.loads(run.stdout)
    result = report.head(figures.pop("benchmark"), options.commit) | figures
    if options.json:
        report.write(options.json, result)
    for row in figures["results"]:
        took = row["ns_per_launch"]
        print(f"{row['policy']:8} {row['lanes']:4} lanes  {row['shape']:34} {took['median']:7.1f} ns"
              f"  (p10 {took['p10']:.1f}, p90 {took['p90']:.1f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
