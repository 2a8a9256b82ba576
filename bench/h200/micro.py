#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What single calls of the driver cost, on the host and in the stream: builds micro.cu and runs it, without the library.

    micro.py --json OUT.json --commit HASH [options]

Each process measures everything once. The table has the median over the processes of
their medians, and the lowest and highest of them. Exit status 1 if a process failed.
"""

import argparse
import json
import sys
import tempfile
import time

import report
import toolkit


def run(program, options, deadline):
    """The lines of one process."""
    left = deadline - time.monotonic()
    if left < 3:
        return {"error": "no time left", "lines": []}
    status, out, err, seconds = report.run([program, "--repeat", str(options.repeat)], report.environment(), left)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    result = {"process seconds": round(seconds, 1), "lines": lines}
    if status != 0:
        result["error"] = f"status {status}: {report.tail(err)}"
    return result


def combine(runs):
    """{measure: {variant: {"unit", "median", "lowest", "highest"} or {"answers"}}}, in the order of the program."""
    table = {}
    for one in runs:
        for line in one["lines"]:
            entry = table.setdefault(line["measure"], {}).setdefault(line["variant"], {})
            if "answer" in line:
                entry.setdefault("answers", []).append(line["answer"])
                continue
            entry["unit"] = line["unit"]
            entry["did not count"] = entry.get("did not count", 0) + line["did not count"]
            if "p50" in line:
                entry.setdefault("p50, all", []).append(line["p50"])
                entry.setdefault("p90, all", []).append(line["p90"])
    for row in table.values():
        for entry in row.values():
            if entry.get("p50, all"):
                entry["median"] = report.median(entry["p50, all"])
                entry["lowest"], entry["highest"] = min(entry["p50, all"]), max(entry["p50, all"])
                entry["p90"] = report.median(entry["p90, all"])
    return table


def show(table):
    for measure, row in table.items():
        print(measure)
        for variant, entry in row.items():
            if "answers" in entry:
                text = ", ".join(str(answer) for answer in sorted(set(entry["answers"])))
            elif "median" in entry:
                text = (f"{entry['median']:10.2f} {entry['unit']}  ({entry['lowest']:.2f} to {entry['highest']:.2f}; "
                        f"p90 {entry['p90']:.2f})")
            else:
                text = "         ?  the driver blocked behind the gate"
            print(f"    {variant:52s} {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--commit", default="", help="what was built, for the result")
    parser.add_argument("--rounds", type=int, default=3, help="processes")
    parser.add_argument("--repeat", type=int, default=60, help="bursts for each figure")
    parser.add_argument("--seconds", type=float, default=60, help="when these are over, what is left is skipped")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    result = report.head("micro", options.commit)
    with tempfile.TemporaryDirectory(prefix="coissue-micro-") as folder:
        program = toolkit.build(folder, "micro.cu", targets=toolkit.SASS)
        result["runs"] = [run(program, options, deadline) for _ in range(options.rounds)]
    result["table"] = combine(result["runs"])
    errors = [one["error"] for one in result["runs"] if "error" in one]
    result["ok"] = not errors and bool(result["table"])
    report.write(options.json, result)
    show(result["table"])
    for error in errors:
        print("NOT SO: " + error)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
