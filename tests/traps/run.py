#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one scenario of a trap program in one mode, and judges what cannot be seen from inside.

  run.py --mode direct|full|gate|held|packed|verify|broker [--shim LIBRARY] [--sim FOLDER] [options] PROGRAM SCENARIO

The program prints lines "expect ...", which say what the trace of the library must show (client.h explains them). In
every mode but direct, each launch that reached the simulated driver must be in the library's trace, once, and neither
library may complain about anything that the scenario did not announce.

In mode broker each run has a broker of its own, which makes what launches it can. What the trace of the program's own
process says is not judged then; the launches that reach the driver in both processes are counted together, and lines of
both are looked at.

  --serve COISSUE     the command whose `serve` is the broker, for mode broker
  --sim FOLDER        where the simulated libcuda.so.1 is; without it the real driver is used
  --env NAME=VALUE    for the program; may be repeated
  --before LIB        also preload LIB, in front of the library; --after LIB: behind it
  --spaces            preload the library from a folder whose name has spaces
  --keep              leave the folder with the traces, and say where it is

Exit status: 0 passed, 1 failed, 77 skipped.
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cross"))
from broker import Broker, BrokerFailure  # pylint: disable=wrong-import-position

MODES = {
    "direct": {},
    "full": {"COISSUE_MODE": "full"},
    "gate": {"COISSUE_MODE": "gate"},
    "held": {"COISSUE_MODE": "full", "COISSUE_HOLD_CAP_US": "100000", "COISSUE_WINDOW": "1", "COISSUE_POLICY": "fit"},
    # One pack at a time, and all the time in the world to wait for company.
    "packed": {"COISSUE_MODE": "full", "COISSUE_HOLD_CAP_US": "100000", "COISSUE_PACKS": "1"},
    # Each launch is replaced by its rewritten form for one member.
    "verify": {"COISSUE_MODE": "full", "COISSUE_VERIFY": "verify-%p.json"},
    "broker": {"COISSUE_MODE": "full", "COISSUE_BROKER": "require"},
}
FULL = ("full", "held", "packed", "verify")
LIKE_FULL = ("packed", "verify", "broker")  # for a program, and for what it expects to be said
TIMEOUT_S = 40  # the program's own watchdog barks after 20
LAUNCH = re.compile(r"^\d+ tid=\d+ (cuLaunchKernel|cuLaunchKernelEx|cuLaunchCooperativeKernel)(_ptsz)? = \d+(?:.* (\S+))?$")


class Failure(Exception):
    pass


def environment(options, folder):
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("COISSUE_", "SIMCUDA_", "CUDA_", "TRAPS_")) and name != "LD_PRELOAD"
    }
    env["TRAPS_MODE"] = "full" if options.mode in LIKE_FULL else options.mode
    if options.sim:
        env["LD_LIBRARY_PATH"] = options.sim
        env["SIMCUDA_TRACE"] = os.path.join(folder, "driver")
    for setting in options.env:
        name, value = setting.split("=", 1)
        env[name] = value
    preload = list(options.before)
    if options.mode != "direct":
        env.update(MODES[options.mode])
        env["COISSUE_TRACE"] = os.path.join(folder, "trace-%p.json")
        env["COISSUE_TRACE_FLUSH_MS"] = "20"
        env["COISSUE_CACHE"] = "off"
        if options.mode == "broker":
            env["COISSUE_BROKER_FOLDER"] = folder
            env.pop("XDG_RUNTIME_DIR", None)
        preload.append(preloadable(options, folder))
    preload += options.after
    if preload:
        env["LD_PRELOAD"] = ":".join(preload)
    return env


def preloadable(options, folder):
    """The path to preload. LD_PRELOAD itself takes no spaces, so the folder that has them gets a plain name as well."""
    if not options.spaces:
        return options.shim
    real, link = os.path.join(folder, "a folder with spaces"), os.path.join(folder, "plain")
    os.mkdir(real)
    shutil.copy(options.shim, real)
    os.symlink(real, link)
    return os.path.join(link, os.path.basename(options.shim))


class Trace:
    """The library's trace: launches that were held, those that were not, and how held ones were issued."""

    def __init__(self, path):
        self.held, self.home, self.issued, self.callers = 0, collections.Counter(), collections.Counter(), collections.Counter()
        self.lost, self.there = 0, os.path.exists(path)
        self.packs, self.members = set(), 0
        if not self.there:
            return
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        self.lost = content["otherData"]["lost events"]
        for event in content["traceEvents"]:
            self.see(event)

    def see(self, event):
        args = event.get("args", {})
        if event.get("ph") != "X" or "grid" not in args:
            return
        if event.get("cat") == "cuda_driver":
            self.callers[event["tid"], event["name"]] += 1
            if args.get("call") == "held":
                self.held += 1
            else:
                self.home[args["reason"]] += 1
        elif event.get("cat") == "issue" and args.get("decision") != "home":
            self.issued[args["reason"]] += args.get("members", 1)
            if "pack" in args:
                self.packs.add(args["pack"])
                self.members += args["members"]

    def seen(self):
        return self.held + sum(self.home.values())

    def to_driver(self):
        """Launches that reached the driver: those of a pack are one."""
        return self.seen() - self.members + len(self.packs)

    def __str__(self):
        return f"{self.held} held, issued {dict(self.issued)}, not held {dict(self.home)}, {self.lost} events lost"


def driver_launches(folder):
    """Kernel name -> launches that reached the simulated driver, of the program or of its broker."""
    names = collections.Counter()
    for whose in ("driver", "broker-driver"):
        try:
            with open(os.path.join(folder, whose), encoding="utf-8") as file:
                for line in file:
                    match = LAUNCH.match(line)
                    if match:
                        names[match.group(3)] += 1
        except FileNotFoundError:
            pass
    return names


def at_least(what, found, wanted):
    if found < wanted:
        raise Failure(f"{what}: {found}, expected at least {wanted}")


def judge_expectation(words, options, trace, launches):
    kind, rest = words[0], words[1:]
    full = options.mode in FULL
    if kind == "held" and full:
        at_least("launches held", trace.held, int(rest[0]))
    elif kind == "held" and options.mode == "gate":
        at_least("launches at the gate", trace.home["GATE"], int(rest[0]))
    elif kind == "home" and full:
        at_least(f"launches not held because of {rest[0]}", trace.home[rest[0]], int(rest[1]))
    elif kind == "home" and options.mode == "gate":
        at_least("launches not held", sum(trace.home.values()), int(rest[1]))
    elif kind == "issued" and full and options.mode not in LIKE_FULL:
        at_least(f"launches issued because of {rest[0]}", trace.issued[rest[0]], int(rest[1]))
    elif kind == "packed" and options.mode == "packed":
        at_least("launches in packs", trace.members, int(rest[0]))
    elif kind == "none-held" and trace.held and options.mode != "broker":
        raise Failure(f"{trace.held} launches were held, expected none")
    elif kind == "driver-launches" and options.sim and launches[rest[0]] != int(rest[1]):
        raise Failure(f"{launches[rest[0]]} launches of {rest[0]} reached the driver, expected {rest[1]}")
    elif kind == "caller" and options.mode not in ("direct", "broker") and trace.callers[int(rest[0]), rest[1]] != int(rest[2]):
        raise Failure(f"thread {rest[0]} launched {rest[1]} {trace.callers[int(rest[0]), rest[1]]} times says the "
                      f"trace, expected {rest[2]}")


def judge_lines(options, expectations, stderr):
    """Each announced line once, and no other line of the two libraries."""
    lines = stderr.splitlines()
    as_mode = "full" if options.mode in LIKE_FULL else options.mode
    for words in expectations:
        if words[0] != "line":
            continue
        mode, text = words[1], " ".join(words[2:])
        if mode != "all" and mode != as_mode and not (mode == "shim" and options.mode != "direct"):
            continue
        hits = [line for line in lines if text in line]
        if len(hits) != 1:
            raise Failure(f'{len(hits)} lines on stderr say "{text}", expected one')
        lines.remove(hits[0])
    allowed = [" ".join(words[1:]) for words in expectations if words[0] == "allowed"]
    for line in lines:
        if line.startswith(("simcuda", "coissue")) and not any(text in line for text in allowed):
            raise Failure(f"an unexpected line on stderr: {line}")


def judge(options, folder, process, stdout, stderr):
    expectations = [line.split()[1:] for line in stdout.splitlines() if line.startswith("expect ")]
    trace = Trace(os.path.join(folder, f"trace-{process.pid}.json"))
    launches = driver_launches(folder)
    if trace.there:
        print(trace)
    if process.returncode != 0:
        raise Failure(f"exit status {process.returncode}")
    for words in expectations:
        judge_expectation(words, options, trace, launches)
    judge_lines(options, expectations, stderr)
    flood = options.scenario.startswith("packs-")  # more launches than the trace takes in on two cores
    if trace.lost and not flood:
        raise Failure(f"{trace.lost} events of the trace are lost")
    uncounted = trace.lost > 0 or any(words[0] == "uncounted" for words in expectations)
    if options.sim and options.mode not in ("direct", "broker") and not uncounted and trace.to_driver() != sum(launches.values()):
        raise Failure(f"the library issued {trace.to_driver()} launches, the driver saw {sum(launches.values())}")


def broker_for(options, folder):
    """Each launch reaches the driver by itself, so that they can be counted."""
    return Broker(options.serve, options.sim, folder, COISSUE_COALESCE="off",
                  SIMCUDA_TRACE=os.path.join(folder, "broker-driver"))


def run_beside_a_broker(options, folder):
    try:
        with broker_for(options, folder) as broker:
            status = run(options, folder, broker)
            if status == 0 and not broker.alive():
                print(f"FAILED: the broker ended with {broker.process.returncode}")
                status = 1
            print(broker.said())
            return status
    except BrokerFailure as failure:
        print(f"FAILED: {failure}")
        return 1


def complaints(broker):
    """What a broker says, without the line in which it says that it serves."""
    return "".join(line for line in broker.said().splitlines(True) if not line.startswith("coissue serve: device"))


def run(options, folder, broker=None):
    env = environment(options, folder)
    process = subprocess.Popen([options.program, options.scenario], env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", cwd=folder)
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        sys.stdout.write(stdout)
        sys.stdout.write(stderr)
        print(f"FAILED: no end after {TIMEOUT_S} s")
        return 1
    sys.stdout.write(stdout)
    sys.stdout.write(stderr)
    if process.returncode == 77:
        return 77
    try:
        judge(options, folder, process, stdout, stderr + complaints(broker) if broker else stderr)
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    return 0


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=sorted(MODES), required=True)
    parser.add_argument("--shim")
    parser.add_argument("--sim")
    parser.add_argument("--serve")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--before", action="append", default=[])
    parser.add_argument("--after", action="append", default=[])
    parser.add_argument("--spaces", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("program")
    parser.add_argument("scenario")
    options = parser.parse_args()
    if options.mode != "direct" and not options.shim:
        parser.error("--shim is needed in this mode")
    if options.mode == "broker" and not options.serve:
        parser.error("--serve is needed in this mode")
    # The program runs in a folder of its own.
    options.program = os.path.abspath(options.program)
    options.shim = os.path.abspath(options.shim) if options.shim else None
    options.before = [os.path.abspath(path) for path in options.before]
    options.after = [os.path.abspath(path) for path in options.after]
    return options


def main():
    options = parse()
    folder = tempfile.mkdtemp(prefix="traps-")
    try:
        return (run_beside_a_broker if options.mode == "broker" else run)(options, folder)
    finally:
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
