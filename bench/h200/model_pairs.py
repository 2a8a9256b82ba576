#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The models of models.py by several tenants at once, so that the kernels of real models are coalesced: same output bits.

    model_pairs.py --shim build/shim/libcoissue.so --json OUT.json --commit HASH [options]

Tenants of one process run the same model with weights and input of their own, each in a thread and a stream of its own;
first two of them, then four. Then two again, whose attention one thread calls for both (BERT and GPT-2): cuDNN generates
that kernel once for each thread, and different functions are never coalesced.

Python does not let two threads launch at the same moment. So launches are held until all tenants have made theirs: one
pack at a time, and two kernels that do nothing for a while in streams of their own, of which the second is counted as a
pack. Passes are made in pieces, because a lane does not hold all launches of a large model.

Each model runs in three processes: without the library, each tenant by itself; with the library, tenants at once, without
coalescing; and with it. The hashes of all outputs of each tenant and round must be equal. From the trace: which kernels
were in packs of two or more. With --twins, a result of twins.py, the kernels that it replaced are those that should be.
Exit status 1 if a hash differs, a process fails, or one of those was never in a pack.
"""

import argparse
import concurrent.futures
import contextlib
import copy
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time

import models
import report
import twins

# What one process does, in this order: tenants, and whether one thread calls attention for all.
PHASES = {"2 threads": (2, False), "4 threads": (4, False), "attention by one": (2, True)}
WARM_UP = 2  # passes of each tenant by itself: caches, workspaces, the allocator
TO_SETTLE = {0: 2.0, 1: 0.8}  # seconds after the first rounds, in which kernels are rewritten
REFRESHED = 4  # weights that change from round to round, in models of half precision
CYCLES_OF_A_MS = 2_000_000  # of an SM, about
PLUG_MS, PLUG_LEAST_MS, PLUG_MOST_MS = 80, 12, 400
DRAIN_S, DRAIN_LAST_S = 0.005, 0.05
LANE = re.compile(r"^lane (\d+): .*stream (0x[0-9a-f]+)$")
SETTINGS = {"COISSUE_SUMMARY": "on", "COISSUE_PACKS": "1", "COISSUE_HOLD_CAP_US": "1000000"}
SIDES = ("alone", "together", "coalesced")


# ---- the process that is looked at -----------------------------------------------------------------------------------


def has_attention(name):
    return name.startswith(("bert", "gpt2"))


def pauses(name, model):
    """The parts of the model before which a pass may pause."""
    kind = name.removesuffix("_fp16")
    if kind == "resnet18":
        return [model.layer2, model.layer3, model.layer4]
    if kind == "mobilenet_v2":
        return [model.features[at] for at in (5, 10, 15)]
    layers = model.encoder.layer if kind == "bert" else model.transformer.h
    return list(layers[2::2])


def tensors(output):
    """All tensors of a model's output, in order."""
    import torch

    if isinstance(output, torch.Tensor):
        return [output]
    if hasattr(output, "layers"):  # what GPT-2 keeps for the next token
        return [one for layer in output.layers for one in (layer.keys, layer.values)]
    values = output.values() if hasattr(output, "values") else output
    return [one for value in values for one in tensors(value)]


def stream_of(stream):
    import torch

    return torch.cuda.stream(stream) if stream else contextlib.nullcontext()


class Tenant:
    """A model with weights, input and a stream of its own."""

    def __init__(self, name, template, data, number, rounds, device):
        import torch

        self.model = copy.deepcopy(template).to(device).requires_grad_(False)
        self.stream = torch.cuda.Stream() if device == "cuda" else None
        self.hashes, self.finite, self.count = [], True, 0
        self.done, self.call, self.result = False, None, None
        half = name.endswith("_fp16")
        noise = torch.Generator(device).manual_seed(1000 + number)
        draw = lambda like: torch.randn(like.shape, generator=noise, device=device)
        for weight in self.model.parameters():
            weight.mul_(1 + 0.1 * draw(weight)).add_(0.002 * draw(weight))
            if weight.dim() == 4 and weight.shape[1] == 1:  # depthwise: as it is made, hardly anything comes through
                weight.mul_(weight.shape[0] ** 0.5)
        for buffer in self.model.buffers():  # what batch normalisation has seen
            if buffer.is_floating_point() and buffer.dim() == 1:
                buffer.add_(0.05 * draw(buffer).abs())
        weights = [weight for weight in self.model.parameters() if weight.dim() == 1][:REFRESHED] if half else []
        self.fresh = [[weight * (1 + 0.01 * turn) for turn in range(3)] for weight in weights]
        self.model = self.model.half() if half else self.model
        self.weights = [weight for weight in self.model.parameters() if weight.dim() == 1][:REFRESHED] if half else []
        source = torch.Generator().manual_seed(2000 + number)
        if data.is_floating_point():
            inputs = [torch.randn(data.shape, generator=source).to(device) for _ in range(rounds)]
            self.inputs = [one.half() for one in inputs] if half else inputs
        else:
            self.inputs = [torch.randint(0, 30000, data.shape, generator=source).to(device) for _ in range(rounds)]

    def forward(self, turn):
        for weight, fresh in zip(self.weights, self.fresh):
            weight.copy_(fresh[turn % len(fresh)])
        return self.model(self.inputs[turn])

    def called(self, function):
        """What the tenant asked the conducting thread to call."""
        if self.call is None:
            return
        arguments, named = self.call
        with stream_of(self.stream):
            self.call, self.result = None, function(*arguments, **named)

    def warm_up(self):
        for _ in range(WARM_UP):
            self.forward(0)
        if self.stream:
            self.stream.synchronize()

    def note(self, output):
        """Waits for the output, and keeps a hash of all bytes of it."""
        import torch

        sum_of_all, found = hashlib.sha256(), [one.detach().cpu().contiguous() for one in tensors(output)]
        for one in found:
            sum_of_all.update(one.view(torch.uint8).numpy().tobytes())
            self.finite = self.finite and bool(torch.isfinite(one).all())
        self.count = len(found)
        self.hashes.append(sum_of_all.hexdigest()[:32])


class Plug:
    """Keeps the launches of other streams waiting, for as long as it takes to make them."""

    def __init__(self, device, settle):
        import torch

        self.settle = TO_SETTLE if settle else {}
        self.streams = [torch.cuda.Stream() for _ in range(2)] if device == "cuda" else []
        self.ms, self.pieces, self.late, self.longest_ms, self.began = PLUG_MS, 0, 0, 0.0, None

    def put(self):
        import torch

        for stream in self.streams:
            with torch.cuda.stream(stream):
                torch.cuda._sleep(int(self.ms * CYCLES_OF_A_MS))
        time.sleep(0.001)
        self.began = time.monotonic()

    def pull(self, last):
        """All launches are made. Waits for the plug, and a while for the launches, without a call that would flush."""
        if self.began is None:
            return
        took = (time.monotonic() - self.began) * 1000
        self.began = None
        self.pieces += 1
        self.late += bool(self.streams) and self.streams[1].query()
        self.longest_ms = max(self.longest_ms, took)
        self.ms = min(PLUG_MOST_MS, max(PLUG_LEAST_MS, 0.8 * self.ms, 2.5 * took + 5))
        for stream in self.streams:
            stream.synchronize()
        time.sleep(DRAIN_LAST_S if last else DRAIN_S)


def in_threads(functions):
    """Runs them at once. An exception in one of them ends the process; that others wait for it in vain says nothing."""
    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        errors = [one.exception() for one in [pool.submit(function) for function in functions]]
    errors = sorted((one for one in errors if one), key=lambda one: isinstance(one, threading.BrokenBarrierError))
    if errors:
        raise errors[0]


def guarded(barrier, function):
    """A barrier that somebody will not reach must not keep the others."""
    import torch

    try:
        with torch.inference_mode():
            return function()
    except BaseException:
        barrier.abort()
        raise


def at_once(tenants, name, rounds, plug, hand_over):
    """A thread for each tenant, and one that puts the plug whenever all of them pause."""
    import torch

    barrier, turn, local = threading.Barrier(len(tenants) + 1, timeout=60), threading.Lock(), threading.local()
    attention = torch.nn.functional.scaled_dot_product_attention

    def pause(*_):
        barrier.wait()
        barrier.wait()

    def handed_over(*arguments, **named):
        tenant = getattr(local, "tenant", None)
        if not tenant:
            return attention(*arguments, **named)
        tenant.call = (arguments, named)
        pause()
        return tenant.result

    def work(tenant):
        parts = [] if hand_over else pauses(name, tenant.model)
        with stream_of(tenant.stream):
            with turn:
                tenant.warm_up()
            hooks = [part.register_forward_pre_hook(pause) for part in parts]
            local.tenant = tenant if hand_over else None
            for number in range(rounds):
                pause()
                output = tenant.forward(number)
                tenant.done = True
                pause()
                tenant.done = False
                tenant.note(output)
            for hook in hooks:
                hook.remove()

    def conduct():
        for number in range(rounds):
            last = False
            while not last:
                barrier.wait()
                last = tenants[0].done
                plug.pull(last)
                if not last:
                    plug.put()
                for tenant in tenants:
                    tenant.called(attention)
                barrier.wait()
            time.sleep(plug.settle.get(number, 0))

    torch.nn.functional.scaled_dot_product_attention = handed_over
    try:
        in_threads([lambda one=one: guarded(barrier, lambda: work(one)) for one in tenants] +
                   [lambda: guarded(barrier, conduct)])
    finally:
        torch.nn.functional.scaled_dot_product_attention = attention


def by_itself(tenants, rounds):
    """One tenant after the other, each in a thread of its own."""
    import torch

    def work(tenant):
        with torch.inference_mode(), stream_of(tenant.stream):
            tenant.warm_up()
            for number in range(rounds):
                tenant.note(tenant.forward(number))

    for tenant in tenants:
        in_threads([lambda: work(tenant)])


def start_tenants(options, count, rounds):
    import torch

    torch.manual_seed(0)
    template, data = models.make(options.model)
    tenants = [Tenant(options.model, template, data, number, rounds, options.device) for number in range(count)]
    models.synchronize(options.device)
    return tenants


def facts(tenants):
    return {"hashes": [one.hashes for one in tenants], "finite": all(one.finite for one in tenants),
            "tensors": tenants[0].count}


def work_alone(options, rounds):
    tenants = start_tenants(options, max(count for count, _ in PHASES.values()), max(rounds.values()))
    by_itself(tenants, len(tenants[0].inputs))
    return {"alone": facts(tenants)}


def work_at_once(options, rounds):
    result = {}
    for phase, (count, hand_over) in PHASES.items():
        if hand_over and not has_attention(options.model):
            continue
        begin = time.monotonic()
        tenants = start_tenants(options, count, rounds[phase])
        plug = Plug(options.device, settle=options.worker == "coalesced")
        at_once(tenants, options.model, rounds[phase], plug, hand_over)
        result[phase] = facts(tenants) | {
            "streams": [hex(one.stream.cuda_stream) for one in tenants if one.stream], "pieces": plug.pieces,
            "pieces that took too long": plug.late, "longest piece ms": round(plug.longest_ms, 1),
            "seconds": round(time.monotonic() - begin, 1)}
    return result


def worker(options):
    import torch

    torch.set_num_threads(2)
    torch.backends.cudnn.benchmark = False  # choosing by time would choose differently in each process
    rounds = dict(zip(PHASES, options.rounds))
    work = work_alone if options.worker == "alone" else work_at_once
    with torch.inference_mode():
        result = {"phases": work(options, rounds), "pid": os.getpid(), "torch": torch.__version__}
    print("RESULT " + json.dumps(result), flush=True)


# ---- what the trace says ---------------------------------------------------------------------------------------------


class Trace:
    """The launches of the tenants: by kernel and phase."""

    def __init__(self, events, phases):
        """`phases`: {handle of a stream: phase}."""
        self.phases, self.lanes, self.kernels, self.elsewhere = phases, {}, {}, {}
        self.rewrites, self.names, self.flushes = {}, {}, {}
        for event in events:
            if event.get("ph") == "M" and event["name"] == "thread_name":
                found = LANE.match(event["args"]["name"])
                if found:
                    self.lanes[int(found[1])] = phases.get(found[2])
        for event in events:
            self.see(event)

    def see(self, event):
        kind, arguments = event.get("cat"), event.get("args", {})
        if kind == "rewrite":
            self.rewrites.setdefault(event["name"], {})[str(arguments["form"])] = arguments["result"]
        elif kind == "cuda_driver" and "correlation" not in arguments:
            phase = self.lanes.get(arguments["lane"], "elsewhere") or "elsewhere"
            mine = self.flushes.setdefault(phase, {})
            mine[event["name"]] = mine.get(event["name"], 0) + 1
        elif kind == "held" and event["ph"] == "b":
            self.names[event["id"]] = arguments["kernel"]
        elif kind == "held" and "pack" in arguments:
            self.add(self.names[event["id"]], self.lanes.get(arguments["lane"]), arguments["members"], arguments["reason"])
        elif kind == "issue" and "pack" not in arguments and arguments["reason"] != "OP":
            phase = self.phases.get(arguments["stream"]) or self.lanes.get(arguments["lane"])
            self.add(event["name"], phase, 1, arguments["reason"])

    def add(self, name, phase, members, reason):
        if phase is None:
            self.elsewhere[name] = self.elsewhere.get(name, 0) + 1
            return
        one = self.kernels.setdefault(name, {"launches": 0, "coalesced": {}, "widest": 0, "alone": {}})
        one["launches"] += 1
        if members > 1:
            one["coalesced"][phase] = one["coalesced"].get(phase, 0) + 1
            one["widest"] = max(one["widest"], members)
        else:
            mine = one["alone"].setdefault(phase, {})
            mine[reason] = mine.get(reason, 0) + 1


def read_trace(path, phases):
    """{"kernels", "lost events", ...} or {"error": ...}"""
    try:
        with open(path) as file:
            content = json.load(file)
        os.unlink(path)
        trace = Trace(content["traceEvents"], phases)
        lost = content["otherData"]["lost events"]
    except (OSError, ValueError, KeyError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    for name, one in trace.kernels.items():
        one["forms"] = trace.rewrites.get(name, {})
    return {"kernels": trace.kernels, "lost events": lost, "flushes": trace.flushes,
            "refused": {name: forms for name, forms in trace.rewrites.items() if set(forms.values()) != {"NONE"}}}


# ---- the process that compares ---------------------------------------------------------------------------------------


class Runner:
    def __init__(self, options):
        self.options = options
        self.deadline = time.monotonic() + options.seconds
        self.folder = tempfile.mkdtemp(prefix="coissue-model-pairs-")

    def run(self, model, side):
        left = self.deadline - time.monotonic()
        if left < 10:
            return {"error": "no time left"}
        settings, path = {}, os.path.join(self.folder, model + ".json")
        if side != "alone":
            settings = SETTINGS | ({"COISSUE_COALESCE": "off"} if side == "together" else
                                   {"COISSUE_TRACE": path, "COISSUE_TRACE_FLUSH_MS": "20"})
        command = [sys.executable, os.path.abspath(__file__), "--worker", side, "--model", model, "--device",
                   self.options.device, "--rounds", ",".join(map(str, self.options.rounds))]
        status, out, err, seconds = report.run(
            command, report.environment(None if side == "alone" else self.options.shim, **settings),
            min(left, self.options.limit))
        line = next((line for line in out.splitlines() if line.startswith("RESULT ")), None)
        if status != 0 or not line:
            return {"error": f"status {status}: {report.tail(err, 12)}"}
        result = json.loads(line.removeprefix("RESULT "))
        result["process seconds"] = round(seconds, 1)
        if side != "alone":
            result["summary"] = report.summary(err, result["pid"])
            result["the library says"] = [text for text in err.splitlines() if text.startswith("coissue[")][:10]
        if side == "coalesced":
            result["trace"] = read_trace(path, {stream: phase for phase, found in result["phases"].items()
                                                for stream in found["streams"]})
        return result


def differences(alone, other):
    """[(phase, tenant, round)] whose outputs are not those of the tenant by itself; and how many were compared."""
    wrong, compared = [], 0
    for phase, found in other["phases"].items():
        for tenant, hashes in enumerate(found["hashes"]):
            for number, one in enumerate(hashes):
                compared += 1
                if one != alone["phases"]["alone"]["hashes"][tenant][number]:
                    wrong.append((phase, tenant, number))
    return wrong, compared


def judge_outputs(runs, found):
    """Adds to found["wrong"] what differs."""
    alone = runs["alone"]["phases"]["alone"]
    hashes = [text for tenant in alone["hashes"] for text in tenant]
    if len(set(hashes)) != len(hashes):
        found["wrong"].append("tenants or rounds have the same output: nothing could be noticed")
    if not alone["finite"]:
        found["wrong"].append("an output is not finite: differences could be hidden")
    for side in ("together", "coalesced"):
        wrong, compared = differences(runs["alone"], runs[side])
        found["compared"][side] = compared
        found["differ"][side] = len(wrong)
        if wrong:
            found["wrong"].append(f"{side}: {len(wrong)} of {compared} outputs differ; phase, tenant and round of the "
                                  f"first: {wrong[:4]}")


def judge(runs):
    """What belongs into the result for one model."""
    found = {"wrong": [f"{side}: {run['error']}" for side, run in runs.items() if "error" in run], "compared": {},
             "differ": {}, "kernels": {}}
    if found["wrong"]:
        return found
    judge_outputs(runs, found)
    found["equal"] = not any(found["differ"].values())
    trace = runs["coalesced"]["trace"]
    if "error" in trace:
        found["wrong"].append("trace: " + trace["error"])
        return found
    if trace["lost events"]:
        found["wrong"].append(f"trace: {trace['lost events']} events were lost")
    found["kernels"] = trace["kernels"]
    found["refused"], found["calls that flushed"] = trace["refused"], trace["flushes"]
    found["launches"] = sum(one["launches"] for one in trace["kernels"].values())
    found["coalesced"] = sum(sum(one["coalesced"].values()) for one in trace["kernels"].values())
    return found


def compare(runner):
    """All models, a few processes at a time: nothing here is timed."""
    result = {}
    with concurrent.futures.ThreadPoolExecutor(runner.options.jobs) as pool:
        waiting = {model: {side: pool.submit(runner.run, model, side) for side in reversed(SIDES)}
                   for model in runner.options.models}
        for model, futures in waiting.items():
            runs = {side: futures[side].result() for side in SIDES}
            result[model] = judge(runs)
            for run in runs.values():  # what was judged need not be kept
                run.pop("trace", None)
                for one in run.get("phases", {}).values():
                    one["rounds"] = len(one.pop("hashes")[0])
            result[model]["runs"] = runs
    return result


def replaced_by_twins(path, wanted):
    """{model: kernels that the twin test replaced}"""
    if not path:
        return {}
    with open(path) as file:
        found = json.load(file)["models"]
    return {model: {one["kernel"] for one in found[model]["runs"]["verify"]["report"]["functions"] if one["replaced"]}
            for model in wanted if model in found}


def add_up(result, twin_kernels):
    """Over all models: which kernels there are, and which were never in a pack."""
    kernels = {}
    for model, found in result["models"].items():
        for name, one in found["kernels"].items():
            kernels.setdefault(name, {})[model] = one
    coalesced = {name for name, by in kernels.items() if any(one["coalesced"] for one in by.values())}
    rewritten = {name for name, by in kernels.items() if any("NONE" in one["forms"].values() for one in by.values())}
    wanted = set().union(*twin_kernels.values()) if twin_kernels else set(kernels)
    never = {name: {model: {"alone": one["alone"], "forms": one["forms"]} for model, one in kernels.get(name, {}).items()}
             for name in sorted((wanted | set(kernels)) - coalesced)}
    among = {phase: {name for name, by in kernels.items() if any(phase in one["coalesced"] for one in by.values())}
             for phase in PHASES}
    result["kernels"] = {
        "launched": len(kernels), "rewritten": len(rewritten), "coalesced": len(coalesced),
        "coalesced, by phase": {phase: len(names) for phase, names in among.items()},
        "of the twin test": len(wanted) if twin_kernels else None,
        "of the twin test, coalesced": len(wanted & coalesced) if twin_kernels else None,
        "never coalesced": never,
        "never coalesced among threads": sorted(set(kernels) - among["2 threads"] - among["4 threads"])}
    for model, found in result["models"].items():
        mine = twin_kernels.get(model)
        if mine is not None:
            missed = sorted(name for name in mine if not found["kernels"].get(name, {}).get("coalesced"))
            found["of the twin test"], found["missed"] = len(mine), missed
    if twin_kernels:
        result["wrong"] += [f"never coalesced: {name}" for name in never if name in wanted]


def show(result):
    print(f"{'model':14s}{'equal':>7s}{'compared':>10s}{'launches':>10s}{'coalesced':>11s}{'kernels':>9s}{'in packs':>10s}"
          f"{'of twins':>12s}")
    for model, one in result["models"].items():
        packed = sum(1 for kernel in one["kernels"].values() if kernel["coalesced"])
        wanted = one.get("of the twin test")
        twin = f"{wanted - len(one['missed'])} of {wanted}" if wanted is not None else ""
        print(f"{model:14s}{ {True: 'yes', False: 'NO', None: '?'}[one.get('equal')]:>7s}"
              f"{sum(one['compared'].values()):10d}{one.get('launches', 0):10d}{one.get('coalesced', 0):11d}"
              f"{len(one['kernels']):9d}{packed:10d}{twin:>12s}")
        for phase, facts_ in one["runs"]["coalesced"].get("phases", {}).items():
            print(f"    {phase:16s} {facts_['rounds']} rounds, {facts_['tensors']} tensors, {facts_['pieces']} pieces, "
                  f"{facts_['pieces that took too long']} too long, longest {facts_['longest piece ms']} ms, "
                  f"{facts_['seconds']} s")
        names = twins.readable(list(one["kernels"]))
        for name, kernel in one["kernels"].items():
            if not {"2 threads", "4 threads"} <= set(kernel["coalesced"]):
                print(f"    {'+'.join(kernel['coalesced']) or 'never':22s} {names[name][:90]}\n        "
                      f"{kernel['launches']} {kernel['coalesced']} alone {kernel['alone']} {kernel['forms']}")
    everything = {key: value for key, value in result["kernels"].items() if "never" not in key}
    print(f"kernels: {everything}")
    for text in result["wrong"]:
        print("NOT SO: " + text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", help="the library to preload")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--commit", default="", help="what was built, for the result")
    parser.add_argument("--models", default=",".join(models.MODELS), help="some of them, separated by commas")
    parser.add_argument("--twins", help="a result of twins.py: which kernels should be in packs")
    parser.add_argument("--rounds", default="20,10,10", help="of each phase: " + ", ".join(PHASES))
    parser.add_argument("--device", default="cuda", help="cpu: to try the script without a GPU; the trace is missing then")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time")
    parser.add_argument("--limit", type=float, default=100, help="seconds for one process")
    parser.add_argument("--seconds", type=float, default=200, help="when these are over, what is left is skipped")
    parser.add_argument("--worker", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.rounds = [int(count) for count in options.rounds.split(",")]
    if options.worker:
        worker(options)
        return 0
    if not options.shim or not os.path.exists(options.shim):
        sys.exit(f"model_pairs.py: --shim: {options.shim!r} is no file")
    options.shim = os.path.realpath(options.shim)
    options.models = options.models.split(",")
    twin_kernels = replaced_by_twins(options.twins, options.models)
    runner = Runner(options)
    result = report.head("model_pairs", options.commit)
    result["models"] = compare(runner)
    result["wrong"] = [f"{model}: {text}" for model, one in result["models"].items() for text in one["wrong"]]
    add_up(result, twin_kernels)
    result["ok"] = bool(result["models"]) and not result["wrong"]
    report.write(options.json, result)
    show(result)
    shutil.rmtree(runner.folder, ignore_errors=True)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
