#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels of all kinds in many streams at once, and a million launches whose parameters change: builds and runs pairs.cu.

    pairs.py --shim build/shim/libcoissue.so --json OUT.json --commit HASH [options]

  kernels   each in a process of its own, without the library and with it: what many streams compute is the same as what
            one stream computes, in both; and with the library launches were coalesced. As machine code and as PTX.
  stale     at least a million coalesced launches, each with other parameters than the one before: each had its own
  spoiled   the same programs, made to go wrong: they must notice

Exit status 1 if a result differs, nothing was coalesced where it could be, or a spoiled run passes.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

import report
import toolkit

TARGETS = {"sass": toolkit.SASS, "ptx": toolkit.PTX}
COALESCED = "coalesced with launches of other tenants"
PACKS = "packs: launches of several tenants that were issued as one"
WIDTH, WIDEST = "launches in a pack, on average", "launches in the largest pack"
REFUSED = "forms of kernels that were not, because"
STALE_LEAST = 1_000_000
SPOILED = {"plain": ["--kernel", "plain", "--streams", "5"], "stale": ["--stale", "--launches", "4096"]}


def run(program, arguments, options, with_library, deadline):
    """The lines of one process, and what the library says of itself."""
    left = deadline - time.monotonic()
    if left < 3:
        return {"error": "no time left", "lines": []}
    settings = {"COISSUE_SUMMARY": "on"} if with_library else {}
    env = report.environment(options.shim if with_library else None, **settings)
    status, out, err, seconds = report.run([program, *arguments], env, min(left, options.limit))
    result = {"lines": [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")],
              "process seconds": round(seconds, 1)}
    if with_library:
        summary = report.summary(err) or {}
        facts = summary.get("facts", {})
        result.update({"launches": summary.get("launches", 0), "coalesced": summary.get(COALESCED, 0),
                       "packs": facts.get(PACKS), "mean width": facts.get(WIDTH), "widest": facts.get(WIDEST),
                       "refused": refusals(facts)})
        warnings = [line for line in err.splitlines() if line.startswith("coissue") and " in process " not in line]
        if warnings:
            result["the library says"] = warnings[:5]
    if status != 0:
        result["error"] = f"status {status}: {report.tail(err)}"
    return result


def refusals(facts):
    """The lines behind the one that counts refused forms of kernels."""
    names = list(facts)
    if REFUSED not in names:
        return {}
    return {name: facts[name] for name in names[names.index(REFUSED) + 1:] if name != "trace events lost"}


def kernels(program):
    """{name: whether its launches can be coalesced} as the program lists them."""
    done = subprocess.run([program, "--list"], capture_output=True, text=True, timeout=60, check=True)
    return {name: kind == "together" for name, kind in (line.split() for line in done.stdout.splitlines())}


def equal(process):
    return bool(process["lines"]) and "error" not in process and all(line["equal"] for line in process["lines"])


def judge(name, together, plain, library, options):
    """What belongs into the result for one kernel."""
    wrong = [f"{side}: {process['error']}" for side, process in (("plain", plain), ("coissue", library))
             if process and "error" in process]
    for side, process in (("plain", plain), ("coissue", library)):
        for line in process["lines"] if process else []:
            if not line["equal"]:
                wrong.append(f"{side}: {line['streams']} streams: the results of {line['streams that differ']} differ")
        if process and "error" not in process and len(process["lines"]) != len(options.streams.split(",")):
            wrong.append(f"{side}: results are missing")
    if plain and equal(plain) and equal(library):
        sums = [{line["streams"]: line["digest"] for line in process["lines"]} for process in (plain, library)]
        if sums[0] != sums[1]:
            wrong.append("results without the library and with it differ")
    if together and "error" not in library and not library["coalesced"]:
        wrong.append("no launch was coalesced" + "".join(f"; {text}" for text in library["refused"]))
    return {"together": together, "equal": equal(library) and (not plain or equal(plain)), "wrong": wrong,
            "plain": plain, "coissue": library}


def compare(programs, options, deadline):
    """{code: {kernel: ...}}; several processes at a time. Without the library only the machine code runs."""
    result = {}
    shape = ["--streams", options.streams, "--rounds", str(options.rounds)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = []
        for code, program in programs.items():
            result[code] = {}
            for name, together in kernels(program).items():
                if options.only and name not in options.only.split(","):
                    continue
                arguments = ["--kernel", name, *shape]
                plain = pool.submit(run, program, arguments, options, False, deadline) if code == options.plain else None
                library = pool.submit(run, program, [*arguments, "--warm", str(options.warm)], options, True, deadline)
                waiting.append((code, name, together, plain, library))
        for code, name, together, plain, library in waiting:
            result[code][name] = judge(name, together, plain and plain.result(), library.result(), options)
    return result


def stale(programs, options, deadline):
    """By itself, so that nothing keeps the host from launching quickly."""
    result = {}
    for code, program in programs.items():
        found = run(program, ["--stale", "--launches", str(options.launches)], options, True, deadline)
        line = found["lines"][0] if found["lines"] else {}
        found["wrong"] = [found["error"]] if "error" in found else []
        if line.get("wrong values") != 0:
            found["wrong"].append(f"wrong values: {line.get('wrong values')} of {line.get('values looked at')}")
        if found.get("coalesced", 0) < options.stale_least:
            found["wrong"].append(f"only {found.get('coalesced', 0)} launches were coalesced, of at least "
                                  f"{options.stale_least}")
        result[code] = found
    return result


def spoiled(program, options, deadline):
    """{name: whether the program noticed}."""
    result = {}
    for name, arguments in SPOILED.items():
        found = run(program, [*arguments, "--spoil"], options, False, deadline)
        line = found["lines"][0] if found["lines"] else {}
        result[name] = line.get("equal") is False if name != "stale" else line.get("wrong values", 0) > 0
    return result


def show(result):
    print(f"{'kernel':18s}{'code':6s}{'equal':>7s}{'launches':>10s}{'coalesced':>11s}{'packs':>9s}{'width':>7s}{'widest':>8s}")
    cell = lambda value: "?" if value is None else str(value)
    for code, found in result["kernels"].items():
        for name, one in found.items():
            library = one["coissue"]
            print(f"{name:18s}{code:6s}{'yes' if one['equal'] else 'NO':>7s}{library.get('launches', 0):10d}"
                  f"{library.get('coalesced', 0):11d}{cell(library.get('packs')):>9s}{cell(library.get('mean width')):>7s}"
                  f"{cell(library.get('widest')):>8s}" + "".join(f"  {text}" for text in library.get("refused", {})))
    for code, found in result["stale"].items():
        line = found["lines"][0] if found["lines"] else {}
        print(f"stale, {code}: {line.get('wrong values', '?')} wrong of {line.get('values looked at', '?')} values, "
              f"{found.get('coalesced', 0)} of {found.get('launches', 0)} launches coalesced, "
              f"{cell(found.get('mean width'))} in a pack, {line.get('seconds', '?')} s")
    for text in result["wrong"]:
        print("NOT SO: " + text)


def collect(result):
    """All that is wrong, as text."""
    wrong = [f"{name}, {code}: {text}" for code, found in result["kernels"].items() for name, one in found.items()
             for text in one["wrong"]]
    wrong += [f"stale, {code}: {text}" for code, found in result["stale"].items() for text in found["wrong"]]
    wrong += [f"spoiled {name}: it was not noticed" for name, noticed in result["spoiled"].items() if not noticed]
    if not any(result["kernels"].values()) and not result["stale"]:
        wrong.append("nothing was run")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", required=True, help="the library to preload")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--commit", default="", help="what was built, for the result")
    parser.add_argument("--code", default="sass,ptx", help="what the programs contain")
    parser.add_argument("--only", default="", help="some kernels, separated by commas; none: the stale reads alone")
    parser.add_argument("--streams", default="2,5,16,64")
    parser.add_argument("--rounds", type=int, default=500, help="launches of each stream")
    parser.add_argument("--warm", type=float, default=200, help="ms before that, in which kernels are rewritten")
    parser.add_argument("--launches", type=int, default=2_000_000, help="for stale reads; 0: skip them")
    parser.add_argument("--stale-least", type=int, default=STALE_LEAST, help="that must have been coalesced")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one process")
    parser.add_argument("--seconds", type=float, default=150, help="when these are over, what is left is skipped")
    options = parser.parse_args()
    if not os.path.exists(options.shim):
        sys.exit(f"pairs.py: --shim: {options.shim!r} is no file")
    options.shim = os.path.realpath(options.shim)
    options.plain = options.code.split(",")[0]
    deadline = time.monotonic() + options.seconds
    result = report.head("pairs", options.commit)
    result.update({"kernels": {}, "stale": {}, "spoiled": {}})
    with tempfile.TemporaryDirectory(prefix="coissue-pairs-") as folder:
        codes = options.code.split(",")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            programs = dict(zip(codes, pool.map(
                lambda code: toolkit.build(folder, "pairs.cu", "pairs_" + code, targets=TARGETS[code]), codes)))
        if options.launches > 0:
            result["stale"] = stale(programs, options, deadline)
        result["spoiled"] = spoiled(programs[options.plain], options, deadline)
        if options.only != "none":
            result["kernels"] = compare(programs, options, deadline)
    result["wrong"] = collect(result)
    result["ok"] = not result["wrong"]
    report.write(options.json, result)
    show(result)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
