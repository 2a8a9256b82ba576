# SPDX-License-Identifier: Apache-2.0
"""The demo on the simulated device, as a user runs it.  demo_test.py CASE DEMO LIBRARY SIMULATED_FOLDER"""
import json
import os
import subprocess
import sys
import tempfile

CASE = sys.argv[1]
DEMO, LIBRARY, SIMULATED = (os.path.abspath(path) for path in sys.argv[2:])
KEYS = {"launches_seen": int, "launches_held": int, "alone": int, "coscheduled": int, "coalesced": int,
        "results_equal": bool, "trace": str, "time_direct_ms": float, "time_coissue_ms": float, "device": str,
        "tenants": int, "rounds": int}
LAUNCHES = 7  # of one tenant in one round


class Wrong(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Wrong(what)


def demo(folder, *options, timeout=120, **variables):
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("COISSUE_", "CUDA_", "SIMCUDA_")) and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    result = subprocess.run([DEMO, *options], cwd=folder, env={**kept, "TMPDIR": folder, "LC_ALL": "C", **variables},
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
    print(f"$ coissue-demo {' '.join(options)}\n{result.stdout}{result.stderr}[exit {result.returncode}]")
    return result


def simulated(folder, *options, **variables):
    return demo(folder, "--device-lib", SIMULATED, *options, **variables)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def check_numbers(numbers, tenants, rounds):
    need(set(numbers) == set(KEYS), f"keys {sorted(numbers)}")
    for key, kind in KEYS.items():
        need(type(numbers[key]) is kind, f"{key} is {numbers[key]!r}")  # pylint: disable=unidiomatic-typecheck
    need(numbers["results_equal"], "results differ")
    need(numbers["tenants"] == tenants and numbers["rounds"] == rounds, "other tenants or rounds than asked for")
    need(numbers["launches_seen"] == tenants * (rounds + 1) * LAUNCHES, f"{numbers['launches_seen']} launches")
    need(0 < numbers["launches_held"] <= numbers["launches_seen"], f"{numbers['launches_held']} held")
    issued = numbers["alone"] + numbers["coscheduled"] + numbers["coalesced"]
    need(issued == numbers["launches_held"], f"{issued} issued")
    need(numbers["device"].startswith("simulated "), numbers["device"])
    need(numbers["time_direct_ms"] > 0 and numbers["time_coissue_ms"] > 0, "no time")


def shows_that_it_works(folder):
    """The defaults, and that the numbers are those of the trace."""
    result = simulated(folder, "--json", "numbers.json")
    need(result.returncode == 0, "exit status")
    numbers = read_json(os.path.join(folder, "numbers.json"))
    check_numbers(numbers, 8, 20)
    need(os.path.dirname(os.path.realpath(numbers["trace"])) == os.path.realpath(folder), numbers["trace"])
    need(numbers["trace"] in result.stdout, "the trace is not named")
    for line in ("launches seen", "held", "alone", "co-scheduled", "coalesced", "results equal", "time direct"):
        need(line in result.stdout, f"{line!r} is not shown")
    issues = [e for e in read_json(numbers["trace"])["traceEvents"] if e.get("cat") == "issue" and "grid" in e["args"]]
    launches = sum(e["args"].get("members", 1) for e in issues)  # several that were issued as one are one event
    need(launches == numbers["launches_seen"], f"{launches} launches issued in the trace")
    kernels = {e["name"] for e in issues}
    need(kernels == {"multiply", "bias_relu", "row_maximum", "softmax"}, f"kernels {kernels}")


def takes_tenants_and_rounds(folder):
    for tenants, rounds in ((1, 1), (3, 2), (2, 5)):
        result = simulated(folder, "--tenants", str(tenants), "--rounds", str(rounds), "--json", "n.json")
        need(result.returncode == 0, "exit status")
        check_numbers(read_json(os.path.join(folder, "n.json")), tenants, rounds)


def finds_the_simulated_device(folder):
    """Without options, where the loader finds no driver that works."""
    os.mkdir(os.path.join(folder, "none"))
    with open(os.path.join(folder, "none", "libcuda.so.1"), "w", encoding="ascii") as file:
        file.write("no library")
    result = demo(folder, "--tenants", "2", "--rounds", "2", LD_LIBRARY_PATH=os.path.join(folder, "none"))
    need(result.returncode == 0, "exit status")
    need("on simulated " in result.stdout, "not on the simulated device")
    result = demo(folder, "--tenants", "2", "--rounds", "2", LD_LIBRARY_PATH=SIMULATED)
    need(result.returncode == 0 and "on simulated " in result.stdout, "simulated device in LD_LIBRARY_PATH")


def compares_without_the_preload(folder):
    """Started with the preload, the direct run must still be direct."""
    result = simulated(folder, "--tenants", "2", "--rounds", "2", "--verbose", LD_PRELOAD=LIBRARY)
    need(result.returncode == 0, "exit status")
    need("LD_PRELOAD without" in result.stderr, "the direct run has the preload")


def fails_when_nothing_is_held(folder):
    small = ("--tenants", "2", "--rounds", "1")
    for variables in ({"COISSUE_MODE": "gate"}, {"CUDA_LAUNCH_BLOCKING": "1"}):
        result = simulated(folder, *small, **variables)
        need(result.returncode == 1 and "no launch was held" in result.stderr, f"{variables}")
    for variables in ({"COISSUE_MODE": "off"}, {"COISSUE_DISABLE": "on"}):
        result = simulated(folder, *small, **variables)
        need(result.returncode == 1 and "coissue did nothing" in result.stderr, f"{variables}")


def fails_when_the_device_fails(folder):
    """In both runs, and in a way that stops threads that wait for each other."""
    for fail in ("cuModuleLoadData:1", "cuMemAlloc_v2:2:2", "cuStreamSynchronize:3", "cuLaunchKernel:1"):
        result = simulated(folder, "--tenants", "4", "--rounds", "2", SIMCUDA_FAIL=fail)
        need(result.returncode == 1 and "the run without coissue failed" in result.stderr, fail)
        need(fail.split(":", maxsplit=1)[0].replace("_v2", "") in result.stderr, f"{fail} is not named")


def fails_without_the_library(folder):
    text = os.path.join(folder, "text.so")
    with open(text, "w", encoding="ascii") as file:
        file.write("no library")
    spaced = os.path.join(folder, "a b.so")
    os.symlink(LIBRARY, spaced)
    os.makedirs(os.path.join(folder, "with space"))
    copy = os.path.join(folder, "with space", "libcoissue.so")
    with open(LIBRARY, "rb") as source, open(copy, "wb") as target:
        target.write(source.read())
    for path, said in (("/nowhere/libcoissue.so", "No such file"), (text, "file too short"),
                       (copy, "colon or a space")):
        for result in (simulated(folder, "--library", path), simulated(folder, COISSUE_LIBRARY=path)):
            need(result.returncode == 2 and said in result.stderr and path in result.stderr, path)
            need(not result.stdout, "a table was shown")
    result = simulated(folder, "--library", spaced, "--tenants", "1", "--rounds", "1")
    need(result.returncode == 0, "a link is followed")


def refuses_what_it_does_not_know(folder):
    for options, said in ((("--tenants", "0"), "from 1 to 256"), (("--tenants", "257"), "from 1 to 256"),
                          (("--tenants", "x"), "'x' is not a number"), (("--rounds", "-1"), "'-1' is not a number"),
                          (("--rounds", "1e3"), "'1e3'"), (("--rounds",), "a value is missing"),
                          (("--bogus",), "unknown option"), (("extra",), "'extra'"),
                          (("--device-lib", "/nowhere"), "there is no libcuda.so.1")):
        result = demo(folder, *options)
        need(result.returncode == 2 and said in result.stderr, f"{options}")
        need(result.stderr.count("\n") == 1 and not result.stdout, f"{options}: more than one line")
    result = simulated(folder, "--json", "/nowhere/n.json", "--tenants", "1", "--rounds", "1")
    need(result.returncode == 1 and "/nowhere/n.json: cannot write" in result.stderr, "JSON that cannot be written")
    need(demo(folder, "--help").returncode == 0, "help")


CASES = {name.replace("_", "-"): case for name, case in list(globals().items())
         if callable(case) and name.split("_")[0] in ("shows", "takes", "finds", "compares", "fails", "refuses")}


def main():
    with tempfile.TemporaryDirectory() as folder:
        try:
            CASES[CASE](folder)
        except Wrong as wrong:
            print(f"FAILED: {wrong}")
            return 1
    return 0


sys.exit(main())
