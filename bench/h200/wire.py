#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs wire_cost and keeps its figures with the commit, the machine and the date.

    wire.py --program build/bench/wire_cost --json OUT.json --commit HASH
"""

import argparse
import json
import subprocess
import sys

import report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="wire_cost, as it was built")
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
    goals = figures["goals"]
    for row in figures["results"]:
        rate, took = row["records_per_second"]["median"], row["ns_enqueue_to_seen"]
        fine = rate >= goals["records_per_second"] and took["median"] < goals["ns_enqueue_to_seen"]
        print(f"{row['processes']:2} processes  {rate / 1e6:6.2f} million records/s  enqueue to seen {took['median']:6.0f} ns"
              f" (p90 {took['p90']:.0f}, p99 {took['p99']:.0f})  {'met' if fine else 'MISSED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
