#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The models of models.py with each launch replaced by the rewritten form of its kernel: the same bits must come out.

    twins.py --shim build/shim/libcoissue.so --json OUT.json --commit HASH [options]

Each model runs without the library and, in a process of its own, with COISSUE_VERIFY: a launch then goes through the
kernel's twin for packs of one, if there is one. The hashes of the outputs must be equal, and at least 95 % of all
launches replaced; those that were never held count as not replaced. What was not replaced is listed with the reason.
Exit status 1 if a hash differs, a process fails or the share is missed.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import models
import report

SHARE = 0.95


class Runner:
    def __init__(self, options):
        self.options = options
        self.deadline = time.monotonic() + options.seconds
        self.folder = tempfile.mkdtemp(prefix="coissue-twins-")

    def run(self, model, verify):
        """The worker's result, and with verification the summary and the report of the library."""
        left = self.deadline - time.monotonic()
        if left < 10:
            return {"error": "no time left"}
        settings = {}
        if verify:
            settings = {"COISSUE_SUMMARY": "on", "COISSUE_VERIFY": os.path.join(self.folder, model + "-%p.json")}
        env = report.environment(self.options.shim if verify else None, **settings)
        result, err = models.run_worker("hash", model, self.options.passes, self.options.device, env,
                                        min(left, self.options.limit))
        if verify and "error" not in result:
            result["summary"] = report.summary(err, result["pid"])
            result["report"] = read_report(os.path.join(self.folder, f"{model}-{result['pid']}.json"))
            warnings = [line for line in err.splitlines() if line.startswith("coissue[")]
            if warnings:
                result["the library says"] = warnings[:10]
        return result


def read_report(path):
    """The functions of the report, or {"error": ...}."""
    try:
        with open(path) as file:
            return {"functions": json.load(file)["functions"]}
    except (OSError, ValueError, KeyError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def known_hashes(path):
    """{model: the plain run} of a result of models.py, if it is from this machine and driver; else nothing."""
    if not path:
        return {}
    try:
        with open(path) as file:
            result = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"twins.py: --plain: {path}: {error}")
    here = report.head("twins", "")
    if any(result.get(key) != here[key] for key in ("machine", "driver")) or result.get("date", "")[:10] != here["date"][:10]:
        print(f"{path} is from another day, machine or driver: not used")
        return {}
    return {model: found["runs"]["plain"] for model, found in result.get("models", {}).items()
            if "hash" in found.get("runs", {}).get("plain", {})}


def not_replaced(functions):
    """What was launched as it was: the most launched first."""
    left = [{"kernel": one["kernel"], "launches": one["launches"] - one["replaced"], "refusal": one["refusal"],
             "because": one["because"]} for one in functions if one["launches"] > one["replaced"]]
    return sorted(left, key=lambda one: (-one["launches"], one["kernel"]))


def judge(plain, twin):
    """What belongs into the result for one model."""
    wrong = [f"{side}: {run['error']}" for side, run in (("plain", plain), ("verify", twin)) if "error" in run]
    found = {"equal": None, "launches": 0, "held": 0, "replaced": 0, "share": None, "not replaced": [], "wrong": wrong}
    if "error" in twin:
        return found
    summary, functions = twin["summary"], twin["report"].get("functions")
    if summary is None or functions is None:
        wrong.append("verify: " + (twin["report"].get("error") or "the library printed no summary"))
        return found
    found["launches"], found["held"] = summary["launches"], summary["held"]
    found["replaced"] = sum(one["replaced"] for one in functions)
    found["share"] = round(found["replaced"] / found["launches"], 5) if found["launches"] else 0
    found["not replaced"] = not_replaced(functions)
    found["never held"] = summary["home"]
    found["held, but not in the report"] = summary["held"] - sum(one["launches"] for one in functions)
    found["kernels"] = {"launched": len(functions), "replaced": sum(1 for one in functions if one["replaced"])}
    if "error" in plain:
        return found
    if plain.get("torch") != twin.get("torch"):
        wrong.append(f"plain ran torch {plain.get('torch')}, verify {twin.get('torch')}")
    found["equal"] = plain["hash"] == twin["hash"] and plain["first hash"] == twin["first hash"]
    if not found["equal"]:
        wrong.append(f"outputs differ: {plain['hash']} without the library, {twin['first hash']} and {twin['hash']} of twins")
    if found["share"] < SHARE:
        wrong.append(f"{found['share']:.1%} of the launches were replaced, of at least {SHARE:.0%}")
    return found


def compare(runner, plain):
    """All models, a few processes at a time: nothing here is timed."""
    options = runner.options
    result = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = []
        for model in options.models:
            twin = pool.submit(runner.run, model, True)
            alone = None if model in plain else pool.submit(runner.run, model, False)
            waiting.append((model, twin, alone))
        for model, twin, alone in waiting:
            alone, twin = alone.result() if alone else plain[model], twin.result()
            result[model] = judge(alone, twin)
            result[model]["runs"] = {"plain": alone, "verify": twin}
    return result


def refused(found):
    """Over all models: {refusal: {"because", "launches", "kernels"}}."""
    table = {}
    for one in found.values():
        for kernel in one["not replaced"]:
            entry = table.setdefault(kernel["refusal"], {"because": kernel["because"], "launches": 0, "kernels": []})
            entry["launches"] += kernel["launches"]
            if kernel["kernel"] not in entry["kernels"]:
                entry["kernels"].append(kernel["kernel"])
    return table


def readable(names):
    """{mangled: as C++ writes it}, if c++filt is there."""
    tool = shutil.which("c++filt")
    if not names or not tool:
        return {name: name for name in names}
    done = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    return dict(zip(names, lines)) if len(lines) == len(names) else {name: name for name in names}


def show(result, rows):
    print(f"{'model':14s}{'equal':>7s}{'launches':>10s}{'held':>8s}{'replaced':>10s}{'share':>8s}{'kernels':>13s}")
    for model, one in result["models"].items():
        kernels = one.get("kernels", {"launched": "?", "replaced": "?"})
        share = f"{one['share']:8.1%}" if one["share"] is not None else "       ?"
        print(f"{model:14s}{ {True: 'yes', False: 'NO', None: '?'}[one['equal']]:>7s}{one['launches']:10d}{one['held']:8d}"
              f"{one['replaced']:10d}{share}{kernels['replaced']:>7} of {kernels['launched']}")
    for name, entry in sorted(result["refused"].items(), key=lambda item: -item[1]["launches"]):
        print(f"{name}: {entry['launches']} launches of {len(entry['kernels'])} kernels: {entry['because']}")
    left = [(kernel, model) for model, one in result["models"].items() for kernel in one["not replaced"]]
    left.sort(key=lambda pair: -pair[0]["launches"])
    names = readable(sorted({kernel["kernel"] for kernel, _ in left}))
    for kernel, model in left[:rows]:
        print(f"    {kernel['launches']:6d} {model:14s} {kernel['refusal']:12s} {names[kernel['kernel']][:110]}")
    for text in result["wrong"]:
        print("NOT SO: " + text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", required=True, help="the library to preload")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--commit", default="", help="what was built, for the result")
    parser.add_argument("--models", default=",".join(models.MODELS), help="some of them, separated by commas")
    parser.add_argument("--passes", type=int, default=models.FEW + models.MORE)
    parser.add_argument("--plain", help="a result of models.py of today and this machine, whose plain runs serve here")
    parser.add_argument("--device", default="cuda", help="cpu: to try the script without a GPU")
    parser.add_argument("--jobs", type=int, default=3, help="processes at a time")
    parser.add_argument("--rows", type=int, default=30, help="kernels that were not replaced, in the table")
    parser.add_argument("--limit", type=float, default=90, help="seconds for one process")
    parser.add_argument("--seconds", type=float, default=150, help="when these are over, what is left is skipped")
    options = parser.parse_args()
    if not os.path.exists(options.shim):
        sys.exit(f"twins.py: --shim: {options.shim!r} is no file")
    options.shim = os.path.realpath(options.shim)
    options.models = options.models.split(",")
    runner = Runner(options)
    result = report.head("twins", options.commit)
    result["models"] = compare(runner, known_hashes(options.plain))
    result["refused"] = refused(result["models"])
    result["wrong"] = [f"{model}: {text}" for model, one in result["models"].items() for text in one["wrong"]]
    result["ok"] = bool(result["models"]) and not result["wrong"]
    report.write(options.json, result)
    show(result, options.rows)
    shutil.rmtree(runner.folder, ignore_errors=True)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
