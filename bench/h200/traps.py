#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of tests/traps on the machine's own driver, without the library and in each mode.

    traps.py --shim build/shim/libcoissue.so --json OUT.json --commit HASH [options]

Builds the programs with the C compiler alone, because the test suite needs libraries that a machine with a GPU may not
have. Which scenarios there are, and with which options, is read from tests/traps/meson.build. Scenarios that need the
simulated device are left out. Exit status 1 if one fails that passes without the library.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

import report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAPS = os.path.join(ROOT, "tests", "traps")
MODES = ["direct", "full", "gate", "held"]
FLAGS = ["-std=gnu17", "-O2", "-g", "-D_GNU_SOURCE", "-fno-strict-aliasing", "-fvisibility=hidden", "-I", ROOT]


def scenarios():
    """{program: [scenario]}, {scenario: [arguments]}, {scenario: [modes]} of meson.build."""
    with open(os.path.join(TRAPS, "meson.build")) as file:
        text = file.read()
    block = text[text.index("traps_scenarios = {"):]
    block = block[:block.index("\n}")]
    programs = {name: re.findall(r"'(trap-[^']+)'", names) for name, names in re.findall(r"'(\w+)': \[(.*?)\]", block, re.S)}
    block = text[text.index("traps_options = {"):]
    block = block[:block.index("\n}") + 1]
    arguments, modes = {}, {}
    for name, options in re.findall(r"'(trap-[^']+)':\s*\{(.*?)\},?\n", block, re.S):
        found = re.search(r"'args': \[(.*?)\]", options, re.S)
        arguments[name] = re.findall(r"'([^']+)'(?: \+ (\w+)\.full_path\(\))?", found[1]) if found else []
        found = re.search(r"'only': \[(.*?)\]", options, re.S)
        if found:
            modes[name] = re.findall(r"'(\w+)'", found[1])
    return programs, arguments, modes


def compile_all(folder, programs):
    """The paths of the programs and of the libraries that scenarios ask for."""

    def cc(*arguments):
        done = subprocess.run(["cc", *FLAGS, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise SystemExit(f"traps.py: cc {' '.join(arguments)}: {report.tail(done.stderr)}")

    kernels = os.path.join(folder, "kernels.c")
    subprocess.run([sys.executable, os.path.join(TRAPS, "embed.py"), kernels, "tests/traps/kernels.h",
                    *[f"{name}={os.path.join(TRAPS, file)}" for name, file in
                      (("kernels_ptx", "kernels.ptx"), ("kernels_sm90_ptx", "kernels_sm90.ptx"))]], check=True, timeout=60)
    libraries = {}
    for name in ("probe", "decoy", "interposer"):
        libraries["traps_" + name] = os.path.join(folder, f"libtraps-{name}.so")
        cc("-shared", "-fPIC", "-o", libraries["traps_" + name], os.path.join(TRAPS, name + ".c"), "-ldl")
    paths = {}
    for name in programs:
        paths[name] = os.path.join(folder, "traps-" + name)
        probe = [libraries["traps_probe"], "-Wl,-rpath," + folder] if name == "resolver" else []
        cc("-o", paths[name], os.path.join(TRAPS, name + ".c"), os.path.join(TRAPS, "client.c"), kernels,
           os.path.join(ROOT, "driver", "driver.c"), *probe, "-lpthread", "-ldl")
    return paths, libraries


def run(options, program, scenario, mode, arguments, deadline):
    left = deadline - time.monotonic()
    if left < 3:
        return {"status": "no time left"}
    command = [sys.executable, os.path.join(TRAPS, "run.py"), "--mode", mode, "--shim", options.shim, *arguments]
    if options.sim:
        command += ["--sim", os.path.realpath(options.sim)]
    status, out, err, seconds = report.run(command + [program, scenario], report.environment(), min(left, 50))
    if status == 124 and left < 50:
        return {"status": "no time left"}
    result = {"status": {0: "passed", 77: "skipped"}.get(status, "failed"), "seconds": round(seconds, 2)}
    if result["status"] != "passed":
        result["text"] = report.tail(out + err, 12)
    return result


def jobs(options, paths, libraries, arguments, modes, programs):
    for name, names in programs.items():
        for scenario in names:
            pairs = arguments.get(scenario, [])
            words = [word + (libraries.get(library, "") if library else "") for word, library in pairs]
            if any("SIMCUDA_" in word for word in words) and not options.sim:
                continue
            for mode in modes.get(scenario, MODES):
                if mode in options.modes:
                    yield paths[name], scenario, mode, words


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", required=True, help="the library to preload")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--commit", default="", help="what was built, for the result")
    parser.add_argument("--sim", help="folder of a simulated libcuda.so.1, to try the script without a GPU")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--only", default="", help="scenarios whose name has this in it")
    parser.add_argument("--jobs", type=int, default=8, help="scenarios at a time")
    parser.add_argument("--seconds", type=float, default=150, help="when these are over, what is left is skipped")
    options = parser.parse_args()
    options.shim = os.path.realpath(options.shim)
    options.modes = options.modes.split(",")
    deadline = time.monotonic() + options.seconds
    programs, arguments, modes = scenarios()
    programs = {name: [one for one in names if options.only in one] for name, names in programs.items()}
    result = report.head("traps", options.commit)
    result["scenarios"] = {}
    with tempfile.TemporaryDirectory(prefix="coissue-traps-") as folder:
        paths, libraries = compile_all(folder, programs)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            waiting = [(scenario, mode, pool.submit(run, options, path, scenario, mode, words, deadline))
                       for path, scenario, mode, words in jobs(options, paths, libraries, arguments, modes, programs)]
            for scenario, mode, future in waiting:
                result["scenarios"].setdefault(scenario, {})[mode] = future.result()
    counts = {}
    blamed = []
    for scenario, found in result["scenarios"].items():
        for mode, one in found.items():
            counts.setdefault(mode, {}).setdefault(one["status"], 0)
            counts[mode][one["status"]] += 1
            if one["status"] == "failed":
                alone = found.get("direct", {}).get("status")
                if mode != "direct" and alone not in ("failed", "skipped"):
                    blamed.append((scenario, mode))
                print(f"{one['status']}: {scenario} in mode {mode} (direct: {alone}): {report.tail(one['text'], 3)}")
    result["counts"] = counts
    result["ok"] = bool(counts) and not blamed
    report.write(options.json, result)
    for mode, found in counts.items():
        print(f"traps, mode {mode:7s}: " + ", ".join(f"{number} {status}" for status, number in sorted(found.items())))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
