#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs wire_cost and keeps its figures with the commit, the machine and the date.

    wire.py --program build/bench/wire_cost --json OUT.json --commit HASH
"""

import sys

import report


def show(row, figures):
    goals, rate, took = figures["goals"], row["records_per_second"]["median"], row["ns_enqueue_to_seen"]
    fine = rate >= goals["records_per_second"] and took["median"] < goals["ns_enqueue_to_seen"]
    return (f"{row['processes']:2} processes  {rate / 1e6:6.2f} million records/s  enqueue to seen {took['median']:6.0f} ns"
            f" (p90 {took['p90']:.0f}, p99 {took['p99']:.0f})  {'met' if fine else 'MISSED'}")


sys.exit(report.keep_figures(__doc__, "wire_cost", show))
