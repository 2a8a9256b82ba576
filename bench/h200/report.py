# SPDX-License-Identifier: Apache-2.0
"""What the measuring scripts share: facts about the machine, running programs with a time limit, reading what the
preloaded library says of itself, and writing the result."""

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time

SUMMARY_BEGIN = re.compile(r"^coissue \S+ in process (\d+)$")
SUMMARY_LINE = re.compile(r"^ *([\d,]+(?:\.\d+)?)( us)? +(?:(\d+\.\d) %)? *(\S.*)$")
HELD = "held in the queue, and then issued"
HOME = ("not held, because", "not held")


def machine():
    """The machine, in words; the GPU as nvidia-smi names it."""
    facts = {"processor": "", "cores": os.cpu_count(), "kernel": platform.release(), "gpu": ""}
    try:
        with open("/proc/cpuinfo") as file:
            facts["processor"] = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        pass
    facts["gpu"] = smi("name")
    return facts


def smi(field):
    try:
        answer = subprocess.run(["nvidia-smi", "--query-gpu=" + field, "--format=csv,noheader"], capture_output=True,
                                text=True, timeout=30)
        return answer.stdout.strip() if answer.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def head(benchmark, commit):
    return {
        "benchmark": benchmark,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit,
        "command": shlex.join(sys.argv),
        "machine": machine(),
        "driver": smi("driver_version"),
    }


def write(path, result):
    """All of it or nothing: a run that is cut off must leave what an earlier step wrote."""
    if not path:
        return
    with open(path + ".new", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def keep_figures(usage, program, show):
    """Runs a program that prints its figures as JSON and keeps them. `show` turns a row of its results, and all of it,
    into a line for people. The exit status."""
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help=program + ", as it was built")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--json", help="where the result goes; without it the lines are all")
    options = parser.parse_args()
    ran = subprocess.run([options.program], capture_output=True, text=True, check=False)
    sys.stderr.write(ran.stderr)
    if ran.returncode != 0:
        return ran.returncode
    figures = json.loads(ran.stdout)
    write(options.json, head(figures.pop("benchmark"), options.commit) | figures)
    for row in figures["results"]:
        print(show(row, figures))
    return 0


def environment(shim=None, **settings):
    """The caller's environment without settings of the library, then a preload and settings if there are any."""
    result = {key: value for key, value in os.environ.items()
              if not key.startswith("COISSUE_") and key != "CUDA_LAUNCH_BLOCKING"}
    if shim:
        result["COISSUE_CACHE"] = "off"  # what is measured is what was built
        before = result.get("LD_PRELOAD")
        result["LD_PRELOAD"] = before + ":" + shim if before else shim
    result.update(settings)
    return result


def run(command, env, timeout):
    """Returns (status, stdout, stderr, seconds). Status 124: it took too long; 127: it could not be started."""
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=timeout,
                              stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr, time.monotonic() - begin
    except subprocess.TimeoutExpired as late:
        texts = [t.decode(errors="replace") if isinstance(t, bytes) else t or "" for t in (late.stdout, late.stderr)]
        return 124, texts[0], texts[1] + f"\n(ended after {timeout:.0f} s)", time.monotonic() - begin
    except OSError as error:
        return 127, "", str(error), time.monotonic() - begin


def summary(text, pid=None):
    """The table that COISSUE_SUMMARY prints: {"launches", "held", "home", "reasons": {text: count}, ...}, or None."""
    lines = iter(text.splitlines())
    for line in lines:
        begin = SUMMARY_BEGIN.match(line)
        if begin and (pid is None or int(begin[1]) == pid):
            break
    else:
        return None
    found = {"launches": 0, "held": 0, "home": 0, "reasons": {}, "facts": {}}
    for line in lines:
        match = SUMMARY_LINE.match(line)
        if not match:
            break
        number, time_unit, share, label = match.groups()
        value = float(number.replace(",", "")) if "." in number else int(number.replace(",", ""))
        if time_unit or share is None:
            found["facts"][label + (" (us)" if time_unit else "")] = value
        elif label == "kernel launches":
            found["launches"] = value
        elif label == HELD:
            found["held"] = value
        elif label in HOME:
            found["home"] = value
        elif label.endswith(", because"):
            found[label.removesuffix(", because")] = value
        else:
            found["reasons"][label] = value
    return found


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else None


def tail(text, lines=6):
    return " | ".join(text.strip().splitlines()[-lines:])[-900:]
