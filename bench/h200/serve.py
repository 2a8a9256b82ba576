#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""N unmodified PyTorch servers on one GPU, each a process of its own, closed loop, batch 1.

    serve.py --build build --json OUT.json --commit HASH [--models resnet18,bert] [--processes 1,2,4,8,16] [options]

One run measures all sides, one after the other, with the same processes:

  slices        nothing: the driver switches between the processes' contexts
  mps           under NVIDIA's MPS
  coissue       one broker, without MPS
  coissue+mps   one broker, under MPS

A request is a copy of the input from pinned memory, a pass, and a copy of the output to pageable memory, as a server
does it. Reported: requests a second of all processes, median and worst 99th percentile of their latencies, and whether
each process's output is the same, bit for bit, as without anything. Exit status 1 if one is not.
"""

import argparse
import glob
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import report

SIDES = ("slices", "mps", "coissue", "coissue+mps")
WARM_UP = 20


# ---- a server --------------------------------------------------------------------------------------------------------


def build(model):
    import torch

    if model == "bert":
        from transformers import BertConfig, BertModel

        return BertModel(BertConfig()).cuda().eval(), torch.randint(0, 30000, (1, 128))
    if model == "mlp":
        layers = [layer for _ in range(20) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
        return torch.nn.Sequential(*layers).cuda().eval(), torch.randn(1, 1024)
    import torchvision

    return getattr(torchvision.models, model)().cuda().eval(), torch.randn(1, 3, 224, 224)


def serve(model, seconds, ready, go):
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net, data = build(model)
    data = data.pin_memory()
    latencies, hashes = [], set()
    with torch.inference_mode():

        def step():
            out = net(data.to("cuda", non_blocking=True))
            return (out if torch.is_tensor(out) else out[0]).cpu()

        for _ in range(WARM_UP):
            hashes.add(hashlib.sha256(step().numpy().tobytes()).hexdigest()[:16])
        os.write(ready, b"r")
        os.read(go, 1)
        begin = now = time.perf_counter()
        while now - begin < seconds:
            out = step()
            then, now = now, time.perf_counter()
            latencies.append(now - then)
            if len(latencies) % 64 == 0:
                hashes.add(hashlib.sha256(out.numpy().tobytes()).hexdigest()[:16])
    latencies.sort()
    print(json.dumps({
        "rate": len(latencies) / (now - begin),
        "p50_ms": latencies[len(latencies) // 2] * 1e3,
        "p99_ms": latencies[len(latencies) * 99 // 100] * 1e3,
        "hashes": sorted(hashes),
        "device_mib": (torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0]) / 2**20,
    }))


# ---- one side --------------------------------------------------------------------------------------------------------


class Mps:
    """The control daemon, in folders of its own."""

    def __init__(self, folder):
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": folder + "/pipe", "CUDA_MPS_LOG_DIRECTORY": folder + "/log"}
        os.makedirs(folder + "/pipe")
        os.makedirs(folder + "/log")
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env={**os.environ, **self.environment}, check=True)

    def stop(self):
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env={**os.environ, **self.environment},
                       stdout=subprocess.DEVNULL, timeout=30)


class Broker:
    def __init__(self, program, folder, environment, log):
        self.folder = folder
        self.log = open(log, "w")
        self.process = subprocess.Popen([word.replace("{folder}", folder) for word in program], env={**os.environ, **environment},
                                        stderr=self.log, stdout=self.log)
        deadline = time.monotonic() + 20
        while not glob.glob(folder + "/*.sock"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("serve.py: the broker did not start, see " + log)
            time.sleep(0.01)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None


def run_servers(options, model, count, environment):
    ready, ready_end = os.pipe()
    go, go_end = os.pipe()
    command = [sys.executable, os.path.abspath(__file__), "server", model, str(options.seconds), str(ready_end), str(go)]
    processes = [
        subprocess.Popen(command, pass_fds=(ready_end, go), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, **environment}) for _ in range(count)
    ]
    os.close(ready_end)
    os.close(go)
    started = 0
    while started < count:
        got = os.read(ready, 64)
        if not got:
            break
        started += len(got)
    os.write(go_end, b"g" * count)
    servers, failures = [], []
    for process in processes:
        try:
            out, errors = process.communicate(timeout=options.limit)
            servers.append(json.loads(out.strip().splitlines()[-1]))
            if errors.strip():
                failures.append(errors[-600:]) if process.returncode else None
        except (subprocess.TimeoutExpired, IndexError, ValueError):
            process.kill()
            failures.append(process.communicate()[1][-600:])
    os.close(ready)
    os.close(go_end)
    return servers, failures


def measure(options, side, model, count, scratch):
    environment, mps, broker = {}, None, None
    folder = tempfile.mkdtemp(dir=scratch)
    status = 0
    try:
        if "mps" in side:
            mps = Mps(folder)
            environment.update(mps.environment)
        if "coissue" in side:
            log = os.path.join(options.logs, f"broker-{side}-{model}-{count}.log")
            broker = Broker(options.broker, folder, {**environment, **options.broker_environment}, log)
            environment.update(LD_PRELOAD=options.shim, COISSUE_BROKER="require", COISSUE_BROKER_FOLDER=folder,
                               **options.client_environment)
        servers, failures = run_servers(options, model, count, environment)
    finally:
        if broker:
            status = broker.stop()
        if mps:
            mps.stop()
    result = {"side": side, "model": model, "processes": count, "failed": failures, "broker_status": status}
    if servers:
        result.update(rate=sum(one["rate"] for one in servers),
                      p50_ms=statistics.median(one["p50_ms"] for one in servers),
                      p99_ms=max(one["p99_ms"] for one in servers),
                      slowest=min(one["rate"] for one in servers), fastest=max(one["rate"] for one in servers),
                      device_mib=max(one["device_mib"] for one in servers),
                      hashes=sorted({one for server in servers for one in server["hashes"]}))
    return result


def show(result, plain):
    if "rate" not in result:
        return f"{result['side']:12s} {result['model']:10s} {result['processes']:3d}  FAILED {result['failed'][:1]}"
    same = plain is None or result["hashes"] == plain["hashes"]
    gain = f"{result['rate'] / plain['rate']:5.2f}x" if plain else "      "
    return (f"{result['side']:12s} {result['model']:10s} {result['processes']:3d} {result['rate']:9.1f}/s {gain} "
            f"p50 {result['p50_ms']:7.2f} ms  p99 {result['p99_ms']:7.2f} ms  {result['device_mib']:7.0f} MiB  "
            f"{'same output' if same else 'OUTPUT DIFFERS'}{'  failed: ' + str(len(result['failed'])) if result['failed'] else ''}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder: shim/libcoissue.so and the broker are taken from it")
    parser.add_argument("--broker", help="command that starts the broker, with {folder} in it, instead of BUILD/broker/coissue-broker")
    parser.add_argument("--json")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--models", default="resnet18")
    parser.add_argument("--processes", default="1,2,4,8,16")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--limit", type=float, default=60, help="seconds that a server may take")
    parser.add_argument("--logs", default=".")
    parser.add_argument("--client", action="append", default=[], metavar="NAME=VALUE", help="environment of the servers")
    parser.add_argument("--daemon", action="append", default=[], metavar="NAME=VALUE", help="environment of the broker")
    options = parser.parse_args()
    options.shim = os.path.realpath(os.path.join(options.build, "shim/libcoissue.so"))
    # The command needs a library to read traces, which a machine with a GPU may lack; what it becomes does not.
    options.broker = options.broker or os.path.join(options.build, "broker/coissue-broker") + " 0 {folder}"
    options.broker = options.broker.split()
    options.client_environment = dict(one.split("=", 1) for one in options.client)
    options.broker_environment = dict(one.split("=", 1) for one in options.daemon)
    return options


def main():
    options = arguments()
    scratch = tempfile.mkdtemp(prefix="coissue-serve-")
    result = {**report.head("serve", options.commit), "seconds": options.seconds, "results": []}
    good = True
    try:
        for model in options.models.split(","):
            for count in map(int, options.processes.split(",")):
                plain = None
                for side in options.sides.split(","):
                    one = measure(options, side, model, count, scratch)
                    if side == "slices" and "rate" in one:
                        plain = one
                    good &= "rate" in one and not one["failed"] and (plain is None or one["hashes"] == plain["hashes"])
                    print(show(one, plain), flush=True)
                    result["results"].append(one)
                    report.write(options.json, result)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if good else 1


if len(sys.argv) > 1 and sys.argv[1] == "server":
    serve(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
else:
    sys.exit(main())
