#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many tenants of one process: one stream, a stream each, the same with the library, and what batching could do.

    coalesce.py --shim build/shim/libcoissue.so --json OUT.json --commit HASH [options]

Builds coalesce.cu and runs it for each kind of work, without the library and with it, in processes that take turns. The
outputs of all sides must be the same bit for bit, save those of the batched functions of cuBLAS, which are other
kernels: whether those agree is only told. Exit status 1 if an output differs, a process fails or a goal is missed.
"""

import argparse
import json
import os
import sys
import tempfile
import time

import report
import toolkit

WORK = ["gemm", "gemv", "elementwise"]
COLUMNS = ["serial", "streams", "threads", "batched", "coissue streams", "coissue threads"]
COALESCED = "coalesced with launches of other tenants"
MANY = 20  # tenants from which on the goals of many hold
FASTER, ALONE, OF_BATCHED = 3.2, 0.97, 0.8


def run(program, options, work, with_library, deadline):
    """The lines of one process, and what the library says of itself."""
    left = deadline - time.monotonic()
    if left < 5:
        return {"error": "no time left", "lines": []}
    command = [program, "--work", work, "--tenants", options.tenants, "--threads", str(options.threads),
               "--ms", str(options.ms), "--warm", str(options.warm if with_library else options.warm / 4),
               "--first", str(options.first if with_library else options.warm / 4),
               "--sides", "streams,threads" if with_library else "streams,threads,serial,batched"]
    settings = {"COISSUE_SUMMARY": "on"} if with_library else {}
    env = report.environment(options.shim if with_library else None, **settings)
    status, out, err, seconds = report.run(command, env, min(left, options.limit))
    result = {"lines": [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")],
              "process seconds": round(seconds, 1)}
    if with_library:
        result["summary"] = report.summary(err)
    if status != 0:
        result["error"] = f"status {status}: {report.tail(err)}"
    return result


def times(runs):
    """{work: {tenants: {column: {"median", "p50, all", "p10", "p90"}}}} of rounds, in microseconds."""
    table = {}
    for number in runs:
        for work, sides in number.items():
            for side, found in sides.items():
                for line in found["lines"]:
                    column = line["side"] if side == "plain" else "coissue " + line["side"]
                    entry = table.setdefault(work, {}).setdefault(line["tenants"], {}).setdefault(
                        column, {"operations": line["operations"], "p50, all": [], "p10, all": [], "p90, all": []})
                    for point in ("p10", "p50", "p90"):
                        entry[point + ", all"].append(line["us per round"][point])
    for row in table.values():
        for columns in row.values():
            for entry in columns.values():
                entry["median"] = report.median(entry["p50, all"])
    return table


def digests(runs):
    """What differs, as text; and where the batched functions gave the same bits."""
    found, wrong, batched = {}, [], {}
    for number in runs:
        for work, sides in number.items():
            for side, process in sides.items():
                for line in process["lines"]:
                    places = found.setdefault((work, line["tenants"]), {}).setdefault(line["digest"], set())
                    places.add(line["side"] if side == "plain" else "coissue " + line["side"])
    for (work, tenants), sums in found.items():
        other = [places for places in sums.values() if places - {"batched"}]
        if len(other) > 1:
            wrong.append(f"{work}, {tenants} tenants: different outputs: "
                         + " against ".join(", ".join(sorted(places)) for places in other))
        if any("batched" in places for places in sums.values()):
            batched.setdefault(work, {})[tenants] = any("batched" in places for places in other)
    return wrong, batched


def processes(runs):
    """What is wrong with processes, as text."""
    wrong = []
    for number, works in enumerate(runs):
        for work, sides in works.items():
            for side, found in sides.items():
                where = f"{work}, {side}, round {number}"
                if "error" in found:
                    wrong.append(f"{where}: {found['error']}")
                elif side == "coissue" and not (found["summary"] or {}).get(COALESCED):
                    wrong.append(f"{where}: no launch was coalesced")
    return wrong


def ratio(columns, over, under):
    if over in columns and under in columns:
        return round(columns[over]["median"] / columns[under]["median"], 3)
    return None


def ratios(table):
    for row in table.values():
        for columns in row.values():
            columns["ratios"] = {
                "streams / coissue": ratio(columns, "streams", "coissue streams"),
                "threads / coissue": ratio(columns, "threads", "coissue threads"),
                "serial / coissue": ratio(columns, "serial", "coissue streams"),
                "batched / coissue": ratio(columns, "batched", "coissue streams"),
                "batched / coissue, threads": ratio(columns, "batched", "coissue threads")}


def goals(table):
    """Of the product of matrices, with one thread: [{"goal", "value", "met"}]; the worst value counts."""
    row = table.get("gemm", {})
    many = [columns["ratios"] for tenants, columns in row.items() if tenants >= MANY]
    alone = [columns["ratios"] for tenants, columns in row.items() if tenants == 1]
    wanted = [(f"gemm, {MANY} tenants and more: at least {FASTER} times as fast as streams", many, "streams / coissue", FASTER),
              (f"gemm, one tenant: at least {ALONE} times", alone, "streams / coissue", ALONE),
              (f"gemm, {MANY} tenants and more: at least {OF_BATCHED} of cublasSgemmBatched", many, "batched / coissue",
               OF_BATCHED)]
    result = []
    for text, some, name, least in wanted:
        values = [one[name] for one in some if one[name] is not None]
        if values:
            result.append({"goal": text, "value": min(values), "met": min(values) >= least})
    return result


def show(result):
    print("us per round of 20 operations per tenant; ratios: how many times as fast as the library is in place of them")
    print(f"{'work':12s}{'N':>4s}" + "".join(f"{name:>17s}" for name in COLUMNS)
          + f"{'streams/':>10s}{'threads/':>10s}{'batched/':>10s}")
    for work, row in result["times"].items():
        for tenants, columns in sorted(row.items()):
            cells = [f"{columns[name]['median']:17.1f}" if name in columns else f"{'':17s}" for name in COLUMNS]
            shares = [f"{columns['ratios'][name]:10.2f}" if columns["ratios"][name] is not None else f"{'':10s}"
                      for name in ("streams / coissue", "threads / coissue", "batched / coissue")]
            print(f"{work:12s}{tenants:4d}" + "".join(cells) + "".join(shares))
    for number, works in enumerate(result["runs"]):
        for work, sides in works.items():
            summary = sides.get("coissue", {}).get("summary") or {}
            facts = summary.get("facts", {})
            packs = ", ".join(f"{value} {name}" for name, value in facts.items() if "pack" in name or "forms" in name)
            print(f"round {number}, {work}: {summary.get('launches', '?')} launches, "
                  f"{summary.get(COALESCED, 0)} coalesced; {packs}")
    for work, row in result["batched functions give the same bits"].items():
        print(f"{work}: the batched function gives the same bits for {sum(row.values())} of {len(row)} numbers of tenants")
    for goal in result["goals"]:
        print(f"{'met   ' if goal['met'] else 'MISSED'} {goal['goal']}: {goal['value']:.2f}")
    for text in result["wrong"]:
        print("NOT SO: " + text)


def judge(result):
    different, same = digests(result["runs"])
    result["times"] = times(result["runs"])
    ratios(result["times"])
    result["batched functions give the same bits"] = same
    result["wrong"] = processes(result["runs"]) + different
    if not result["times"]:
        result["wrong"].append("no program gave a result")
    result["goals"] = goals(result["times"])
    result["ok"] = not result["wrong"] and all(goal["met"] for goal in result["goals"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", required=True, help="the library to preload")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--commit", default="", help="what was built, for the result")
    parser.add_argument("--work", default=",".join(WORK), help="some of them, separated by commas")
    parser.add_argument("--tenants", default="120,64,32,20,16,8,4,2,1", help="in this order")
    parser.add_argument("--threads", type=int, default=4, help="of the side with several")
    parser.add_argument("--rounds", type=int, default=2, help="processes for each side and work")
    parser.add_argument("--ms", type=float, default=50, help="how long rounds are timed, for each figure")
    parser.add_argument("--warm", type=float, default=80, help="ms before that; a quarter of it without the library")
    parser.add_argument("--first", type=float, default=700, help="ms before the first of all: kernels are rewritten then")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one process")
    parser.add_argument("--seconds", type=float, default=120, help="when these are over, what is left is skipped")
    options = parser.parse_args()
    if not os.path.exists(options.shim):
        sys.exit(f"coalesce.py: --shim: {options.shim!r} is no file")
    options.shim = os.path.realpath(options.shim)
    deadline = time.monotonic() + options.seconds
    result = report.head("coalesce", options.commit)
    result["runs"] = []
    with tempfile.TemporaryDirectory(prefix="coissue-coalesce-") as folder:
        program = toolkit.build(folder, "coalesce.cu", targets=toolkit.SASS, cublas=True)
        for _ in range(options.rounds):
            result["runs"].append({})
            for work in options.work.split(","):
                result["runs"][-1][work] = {side: run(program, options, work, side == "coissue", deadline)
                                            for side in ("plain", "coissue")}
                judge(result)
                report.write(options.json, result)
    show(result)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
