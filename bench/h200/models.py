#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Six unmodified PyTorch models, without the library and with it preloaded.

    models.py --shim build/shim/libcoissue.so --json OUT.json --commit HASH [options]

One run measures all sides, each in processes of their own:

  results    the hash of the output is the same without the library, in mode full and in mode gate
  launches   the library saw as many launches as torch.profiler counted kernels, in a run of its own without the library:
             once for everything from the first CUDA call on, and once for 20 further passes alone
  decisions  how many launches were held, and why each went as it did
  latency    resnet18, batch 1, closed loop from host memory to host memory: p50 and p99 without the library, in mode
             full and in mode gate, in processes that take turns

Weights are random (nothing is downloaded) but the same in each process. Exit status 1 if a result or a count differs.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import sys
import tempfile
import time

import report

MODELS = ["resnet18", "resnet18_fp16", "mobilenet_v2", "bert", "bert_fp16", "gpt2_fp16"]
FEW, MORE = 3, 20  # passes in the first window, and in the second
WARM_UP = 200  # passes before latency is taken: caches, clocks, allocator
LAUNCH_CALLS = ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchCooperativeKernel", "cuLaunchCooperativeKernel")


# ---- the process that is measured ------------------------------------------------------------------------------------


def make(name, **config):
    """The model with random weights, and input for it, both in host memory and of single precision."""
    import torch

    kind = name.removesuffix("_fp16")
    if kind in ("resnet18", "mobilenet_v2"):
        import torchvision

        return getattr(torchvision.models, kind)().eval(), torch.randn(1, 3, 224, 224)
    if kind == "bert":
        import transformers

        return transformers.BertModel(transformers.BertConfig(**config)).eval(), torch.randint(0, 30000, (1, 128))
    if kind == "gpt2":
        import transformers

        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**config)).eval(), torch.randint(0, 50000, (1, 64))
    raise SystemExit(f"models.py: no model is called {name}")


def build(name, device):
    """The model as a function without arguments, ready to run on fixed random input."""
    model, data = make(name)
    model = model.to(device)
    data = data.to(device)
    if name.endswith("_fp16"):
        model = model.half()
        data = data.half() if data.is_floating_point() else data
    if name.startswith("bert"):
        return lambda: model(data)[0]
    if name.startswith("gpt2"):
        return lambda: model(data).logits
    return lambda: model(data)


def synchronize(device):
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def digest(output):
    """Of the bytes themselves: equal only if each bit is."""
    import torch

    return hashlib.sha256(output.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:32]


def some_passes(step, count, device):
    for _ in range(count):
        output = step()
    synchronize(device)
    return output


def worker_hash(options):
    step = build(options.model, options.device)
    first = digest(some_passes(step, FEW, options.device))
    if options.passes > FEW:
        return {"hash": digest(some_passes(step, options.passes - FEW, options.device)), "first hash": first}
    return {"hash": first, "first hash": first}


def count_events(profiler):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
    category = lambda word: sum(1 for event in events if event.get("cat") == word and event.get("ph") == "X")
    calls = sum(1 for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")
                and str(event.get("name", "")).startswith(LAUNCH_CALLS))
    return {"kernels": category("kernel"), "copies": category("gpu_memcpy"), "sets": category("gpu_memset"),
            "launch calls": calls}


def worker_profile(options):
    """The same work as worker_hash does with FEW passes, in one window; MORE passes and their hash in another."""
    from torch.profiler import ProfilerActivity, profile, supported_activities

    activity = [ProfilerActivity.CUDA if ProfilerActivity.CUDA in supported_activities() else ProfilerActivity.CPU]
    with profile(activities=activity) as first:
        step = build(options.model, options.device)
        output = digest(some_passes(step, FEW, options.device))
    with profile(activities=activity) as second:
        last = digest(some_passes(step, MORE, options.device))
    return {"hash": last, "first hash": output, "all": count_events(first), "passes": count_events(second)}


def worker_latency(options):
    import torch

    step_input = torch.randn(1, 3, 224, 224)
    if options.device == "cuda":
        step_input = step_input.pin_memory()
    import torchvision

    model = torchvision.models.resnet18().to(options.device).eval()

    def step():
        return model(step_input.to(options.device, non_blocking=True)).cpu()

    for _ in range(min(WARM_UP, options.passes)):
        output = step()
    times = []
    begin = time.perf_counter()
    for _ in range(options.passes):
        before = time.perf_counter()
        output = step()
        times.append(time.perf_counter() - before)
    seconds = time.perf_counter() - begin
    times.sort()
    at = lambda share: round(times[min(len(times) - 1, int(len(times) * share))] * 1e6, 1)
    return {"hash": digest(output), "passes": options.passes, "per second": round(options.passes / seconds, 1),
            "us": {"p10": at(0.1), "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1)}}


def worker(options):
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(2)  # of 16 cores, six processes at a time
    torch.backends.cudnn.benchmark = False  # choosing by time would choose differently in each process
    work = {"hash": worker_hash, "profile": worker_profile, "latency": worker_latency}[options.worker]
    with torch.inference_mode():
        result = work(options)
    result["pid"] = os.getpid()
    result["torch"] = torch.__version__
    print("RESULT " + json.dumps(result), flush=True)


# ---- the process that compares ---------------------------------------------------------------------------------------


def run_worker(kind, model, passes, device, env, timeout):
    """A process of its own. Returns what it measured, or {"error": ...}; and its stderr."""
    command = [sys.executable, os.path.abspath(__file__), "--worker", kind, "--model", model, "--passes", str(passes),
               "--device", device]
    status, out, err, seconds = report.run(command, env, timeout)
    line = next((line for line in out.splitlines() if line.startswith("RESULT ")), None)
    if status != 0 or not line:
        return {"error": f"status {status}: {report.tail(err)}"}, err
    result = json.loads(line[len("RESULT "):])
    result["process seconds"] = round(seconds, 1)
    return result, err


class Runner:
    def __init__(self, options):
        self.options = options
        self.deadline = time.monotonic() + options.seconds
        self.folder = tempfile.mkdtemp(prefix="coissue-models-")

    def run(self, kind, model, mode, passes, trace=False):
        """Returns the worker's result with "summary" and "trace" added, or {"error": ...}."""
        settings = {"COISSUE_SUMMARY": "on", "COISSUE_MODE": mode} if mode else {}
        path = os.path.join(self.folder, f"{model}-{mode}-{passes}.json")
        if trace:
            settings["COISSUE_TRACE"] = path
        left = self.deadline - time.monotonic()
        if left < 10:
            return {"error": "no time left"}
        result, err = run_worker(kind, model, passes, self.options.device,
                                 report.environment(mode and self.options.shim, **settings), min(left, 120))
        if "error" in result:
            return result
        if mode:
            result["summary"] = report.summary(err, result["pid"])
        if trace:
            result["trace"] = read_trace(path)
        return result


def read_trace(path):
    """Launches and reasons as the trace has them."""
    try:
        with open(path) as file:
            trace = json.load(file)
        os.unlink(path)
    except (OSError, ValueError) as error:
        return {"error": str(error)}
    seen, reasons = 0, {}
    for event in trace["traceEvents"]:
        arguments = event.get("args", {})
        if event.get("cat") == "cuda_driver" and "correlation" in arguments:
            seen += 1
        if event.get("cat") == "issue" and arguments.get("reason") != "OP":
            reasons[arguments["reason"]] = reasons.get(arguments["reason"], 0) + arguments.get("members", 1)
    return {"launches": seen, "reasons": reasons, "lost events": trace["otherData"]["lost events"]}


def seen(result):
    return (result.get("summary") or {}).get("launches")


class Checks:
    def __init__(self):
        self.all = []

    def add(self, model, what, left, right):
        fine = left is not None and left == right
        self.all.append({"model": model, "check": what, "left": left, "right": right, "ok": fine})
        return fine

    def failed(self):
        return [check for check in self.all if not check["ok"]]


def judge(model, runs, checks):
    """Compares the runs of one model; returns what belongs into the result."""
    for name, run in runs.items():
        if "error" in run:
            checks.add(model, f"{name} runs", run["error"], "")
    plain, profile = runs["plain"], runs["profile"]
    for name in ("full", "gate", "profile"):
        checks.add(model, f"output without the library = output of {name}", plain.get("hash"), runs[name].get("hash"))
    checks.add(model, "output of the last pass = output of the third", plain.get("hash"), plain.get("first hash"))
    few, many = seen(runs["full, few"]), seen(runs["full"])
    if profile.get("all", {}).get("kernels") == 0:
        checks.add(model, "torch.profiler saw kernels", 0, None)
    checks.add(model, f"launches seen, set-up and {FEW} passes = kernels that torch.profiler counted", few,
               profile.get("all", {}).get("kernels"))
    checks.add(model, f"launches seen, {MORE} passes = kernels that torch.profiler counted",
               None if few is None or many is None else many - few, profile.get("passes", {}).get("kernels"))
    checks.add(model, "launches seen in mode gate = in mode full", seen(runs["gate"]), many)
    trace = runs["full"].get("trace") or {}
    if trace.get("lost events") == 0:
        checks.add(model, "launches in the trace = launches in the summary", trace.get("launches"), many)
    summary = runs["full"].get("summary") or {}
    return {"launches per pass": None if few is None or many is None else (many - few) / MORE,
            "share held": summary["held"] / summary["launches"] if summary.get("launches") else None, "runs": runs}


def compare_models(runner, checks):
    """All models, several processes at a time: nothing here is timed."""
    kinds = {"plain": ("hash", None, FEW + MORE, False), "full": ("hash", "full", FEW + MORE, True),
             "full, few": ("hash", "full", FEW, False), "gate": ("hash", "gate", FEW + MORE, False),
             "profile": ("profile", None, FEW + MORE, False)}
    results = {}
    with concurrent.futures.ThreadPoolExecutor(runner.options.jobs) as pool:
        waiting = {model: {name: pool.submit(runner.run, kind, model, mode, passes, trace)
                           for name, (kind, mode, passes, trace) in kinds.items()} for model in runner.options.models}
        for model, futures in waiting.items():
            results[model] = judge(model, {name: future.result() for name, future in futures.items()}, checks)
    return results


def measure_latency(runner, checks):
    """Processes that take turns, one at a time."""
    sides = {"plain": None, "full": "full", "gate": "gate"}
    rounds = {name: [] for name in sides}
    for _ in range(runner.options.rounds):
        for name, mode in sides.items():
            rounds[name].append(runner.run("latency", "resnet18", mode, runner.options.latency_passes))
    result = {"rounds": rounds, "median over the processes": {}}
    for name, runs in rounds.items():
        good = [run for run in runs if "error" not in run]
        checks.add("resnet18", f"latency: processes of {name} that ran", len(good), runner.options.rounds)
        if not good:
            continue
        result["median over the processes"][name] = {
            "p50 us": report.median([run["us"]["p50"] for run in good]),
            "p99 us": report.median([run["us"]["p99"] for run in good]),
            "per second": report.median([run["per second"] for run in good]),
            "p50 us, all": [run["us"]["p50"] for run in good], "p99 us, all": [run["us"]["p99"] for run in good]}
    hashes = {run["hash"] for runs in rounds.values() for run in runs if "hash" in run}
    checks.add("resnet18", "latency: different outputs among all processes", len(hashes), 1)
    return result


def show(result, checks):
    print(f"{'model':14s} {'launches/pass':>13s} {'held':>7s}  checks")
    for model, found in result["models"].items():
        mine = [check for check in checks.all if check["model"] == model and not check["check"].startswith("latency")]
        per_pass, held = found["launches per pass"], found["share held"]
        print(f"{model:14s} {per_pass if per_pass is not None else '?':>13} "
              f"{format(held, '7.1%') if held is not None else '      ?'}  "
              f"{sum(check['ok'] for check in mine)} of {len(mine)} as they should be")
    for name, numbers in result.get("latency of resnet18", {}).get("median over the processes", {}).items():
        print(f"resnet18 batch 1, {name:5s}: p50 {numbers['p50 us']:8.1f} us  p99 {numbers['p99 us']:8.1f} us  "
              f"{numbers['per second']:7.1f} /s   p50 of each process {numbers['p50 us, all']}")
    for check in checks.failed():
        print(f"NOT SO: {check['model']}: {check['check']}: {check['left']} against {check['right']}")


def compare(options):
    if not options.shim or not os.path.exists(options.shim):
        sys.exit(f"models.py: --shim: {options.shim!r} is no file")
    options.shim = os.path.realpath(options.shim)
    runner, checks = Runner(options), Checks()
    result = report.head("models", options.commit)
    result["models"] = compare_models(runner, checks)
    result["checks"] = checks.all
    report.write(options.json, result)  # in case the rest is cut off
    if options.rounds > 0:
        result["latency of resnet18"] = measure_latency(runner, checks)
    result["ok"] = not checks.failed()
    report.write(options.json, result)
    show(result, checks)
    return 0 if result["ok"] else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", help="the library to preload")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--commit", default="", help="what was built, for the result")
    parser.add_argument("--models", default=",".join(MODELS), help="some of them, separated by commas")
    parser.add_argument("--device", default="cuda", help="cpu: to try the script without a GPU; the counts then fail")
    parser.add_argument("--jobs", type=int, default=6, help="processes at a time, where nothing is timed")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each side of the latency")
    parser.add_argument("--latency-passes", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=300, help="when these are over, what is left is skipped")
    parser.add_argument("--worker", choices=["hash", "profile", "latency"], help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--passes", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.models = options.models.split(",") if options.models else []
    if options.worker:
        worker(options)
        return 0
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
