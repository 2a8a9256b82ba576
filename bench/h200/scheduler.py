#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs scheduler_cost and keeps its figures with the commit, the machine and the date.

    scheduler.py --program build/bench/scheduler_cost --json OUT.json --commit HASH
"""

import sys

import report


def show(row, _):
    took = row["ns_per_launch"]
    return (f"{row['policy']:8} {row['lanes']:4} lanes  {row['shape']:34} {took['median']:7.1f} ns"
            f"  (p10 {took['p10']:.1f}, p90 {took['p90']:.1f})")


sys.exit(report.keep_figures(__doc__, "scheduler_cost", show))
