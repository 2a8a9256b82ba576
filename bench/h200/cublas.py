#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unmodified cuBLAS programs, without the library and with it preloaded.

    cublas.py --shim build/shim/libcoissue.so --json OUT.json --commit HASH [options]

Builds cublas_streams.cu twice, with the CUDA runtime linked statically and as a shared library, and runs both without the
library, in mode full and in mode gate. The static build takes turns for some rounds, for the times; the shared one runs
once. The bits of all outputs must be the same on all sides. Exit status 1 if they are not.
"""

import argparse
import json
import os
import sys
import tempfile
import time

import report
import toolkit

SIDES = {"plain": None, "full": "full", "gate": "gate"}


def run(program, options, mode, deadline):
    """The lines of the program, or {"error": ...}; and the summary of the library."""
    left = deadline - time.monotonic()
    if left < 5:
        return {"error": "no time left"}
    settings = {"COISSUE_MODE": mode, "COISSUE_SUMMARY": "on"} if mode else {}
    command = [program, "--work", options.work, "--tenants", options.tenants, "--rounds", str(options.iterations)]
    status, out, err, seconds = report.run(command, report.environment(mode and options.shim, **settings), min(left, 90))
    if status != 0:
        return {"error": f"status {status}: {report.tail(err)}", "lines": []}
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {"lines": lines, "process seconds": round(seconds, 1), "summary": report.summary(err) if mode else None}


def key(line):
    return f"{line['work']}, {line['tenants']} {line['placement']}"


def judge(result):
    """Compares all checksums; returns what is wrong, as text."""
    wrong, sums = [], {}
    for cudart, rounds in result["runs"].items():
        for number, sides in enumerate(rounds):
            for side, found in sides.items():
                where = f"{side}, cudart {cudart}, round {number}"
                if "error" in found:
                    wrong.append(f"{where}: {found['error']}")
                    continue
                if side != "plain" and not (found["summary"] or {}).get("launches"):
                    wrong.append(f"{where}: the library saw no launch")
                if side == "full" and found["summary"] and not found["summary"]["held"]:
                    wrong.append(f"{where}: no launch was held")
                for line in found["lines"]:
                    sums.setdefault(key(line), {}).setdefault((line["checksum"], line["checksum after"]), []).append(where)
    for what, found in sums.items():
        if len(found) > 1:
            wrong.append(f"{what}: different outputs: " + "; ".join(f"{sum[1]} in {', '.join(places)}"
                                                                    for sum, places in found.items()))
    result["combinations"] = len(sums)
    if not sums:
        wrong.append("no program gave a result")
    return wrong


def times(result):
    """Per combination and side: the median over the rounds of the median round, and all of them."""
    table = {}
    for sides in result["runs"].get("static", []):
        for side, found in sides.items():
            for line in found.get("lines", []):
                entry = table.setdefault(key(line), {}).setdefault(side, {"us per round, p50": [], "operations/s": []})
                entry["us per round, p50"].append(line["us per round"]["p50"])
                entry["operations/s"].append(line["operations per second"])
    for row in table.values():
        for entry in row.values():
            entry["median"] = report.median(entry["us per round, p50"])
            entry["median operations/s"] = report.median(entry["operations/s"])
    return table


def show(result):
    print(f"{'us per round of 20 operations per tenant':42s} {'plain':>9s} {'full':>9s} {'gate':>9s} {'full/plain':>10s}")
    for what, row in result["times"].items():
        cells = [format(row[side]["median"], "9.1f") if side in row else "        ?" for side in SIDES]
        ratio = row["full"]["median"] / row["plain"]["median"] if "full" in row and "plain" in row else float("nan")
        print(f"{what:42s} {' '.join(cells)} {ratio:10.2f}")
    for text in result["wrong"]:
        print("NOT SO: " + text)
    if not result["wrong"]:
        print(f"outputs of all {result['combinations']} combinations are the same on all sides")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", required=True, help="the library to preload")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--commit", default="", help="what was built, for the result")
    parser.add_argument("--work", default="gemm,gemv,elementwise")
    parser.add_argument("--tenants", default="1,4,16")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each side of the static build")
    parser.add_argument("--iterations", type=int, default=60, help="timed rounds in each process")
    parser.add_argument("--seconds", type=float, default=150, help="when these are over, what is left is skipped")
    options = parser.parse_args()
    if not os.path.exists(options.shim):
        sys.exit(f"cublas.py: --shim: {options.shim!r} is no file")
    options.shim = os.path.realpath(options.shim)
    deadline = time.monotonic() + options.seconds
    result = report.head("cublas", options.commit)
    result["runs"] = {"static": [], "shared": []}
    with tempfile.TemporaryDirectory(prefix="coissue-cublas-") as folder:
        for cudart, rounds in (("static", options.rounds), ("shared", 1)):
            program = toolkit.build(folder, "cublas_streams.cu", "cublas_streams_" + cudart, cudart=cudart, cublas=True)
            for _ in range(rounds):
                result["runs"][cudart].append({side: run(program, options, mode, deadline) for side, mode in SIDES.items()})
                report.write(options.json, result)
    result["wrong"] = judge(result)
    result["times"] = times(result)
    result["ok"] = not result["wrong"]
    report.write(options.json, result)
    show(result)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
