#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traps that are told in the words of a framework: frameworks.py SHIM WORKLOAD

Runs the workload in a process without the library, in one with it, and in one where it holds launches as long as it
can. Each prints lines that must be the same; and under the library launches must have been seen. Skips (77) without
PyTorch, or without what else the workload needs.
"""
import json
import os
import subprocess
import sys
import tempfile

BEGIN = """
import sys
try:
    import torch
except ImportError:
    print("needs PyTorch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("needs a PyTorch that can use the GPU")
    sys.exit(77)
torch.manual_seed(7)
"""

WORKLOADS = {
    # Three kernels, one of which other libraries did not see.
    "cumsum": """
print((torch.cumsum(torch.ones(6, device="cuda"), 0) - 1).tolist())
x = torch.rand(100000, device="cuda").mul_(9).int()
print(torch.cumsum(x, 0)[-1].item(), torch.sort(x)[0][5000].item())
""",
    # A transformer with random weights, decoded greedily on the null stream: any wrong order changes tokens.
    "decode": """
layer = torch.nn.TransformerEncoderLayer(256, 8, 512, dropout=0.0, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 4).cuda().eval()
embed, head = torch.nn.Embedding(1000, 256).cuda(), torch.nn.Linear(256, 1000).cuda()
tokens = torch.arange(8, device="cuda")[None]
with torch.no_grad():
    for _ in range(200):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device="cuda")
        tokens = torch.cat([tokens, head(model(embed(tokens), mask=mask))[:, -1].argmax(-1, keepdim=True)], 1)
print(tokens.tolist())
""",
    "allocator": """
for i in range(2000):
    x = torch.full((1000000,), i, device="cuda")
    y = x.clone()
    del x
    z = torch.zeros(1000000, device="cuda")
    if i % 100 == 99:
        assert y[0].item() == i and y[-1].item() == i and z.sum().item() == 0, i
print("2000 rounds")
""",
    "graph": """
x = torch.zeros(1000, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        y = (x + 1).relu() * 2
torch.cuda.current_stream().wait_stream(side)
x.add_(5)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x.add_(1)
    y = (x + 1).relu() * 2
for _ in range(10):
    graph.replay()
print(x[0].item(), y[0].item())
""",
    "triton": """
try:
    import triton, triton.language as tl
except ImportError:
    print("needs Triton")
    sys.exit(77)
import gc, importlib.util, tempfile, os
source = '''
import triton, triton.language as tl
@triton.jit
def store(p, value, N: tl.constexpr):
    tl.store(p + tl.arange(0, N), value)
'''
for i in range(5):
    path = os.path.join(tempfile.mkdtemp(), f"kernel{i}.py")
    open(path, "w").write(source)
    spec = importlib.util.spec_from_file_location(f"kernel{i}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = torch.zeros(64, dtype=torch.int32, device="cuda")
    module.store[(1,)](out, 1, 64)
    torch.cuda._sleep(100000000)
    module.store[(1,)](out, 100 + i, 64)
    del module
    gc.collect()
    print(out[63].item())
""",
    "nccl": """
if torch.cuda.device_count() < 2:
    print("needs two GPUs")
    sys.exit(77)
import torch.multiprocessing as mp, torch.distributed as dist, os
def rank_main(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    data = [torch.ones(100000, device="cuda") for _ in range(2)]
    a = torch.rand(512, 512, device="cuda")
    for i in range(1000):
        work = dist.all_reduce(data[i % 2], group=groups[i % 2], async_op=True)
        a = (a @ a).clamp_(-1, 1)
        work.wait()
        data[i % 2].div_(2)
    assert data[0][0].item() == 1 and data[1][-1].item() == 1
    dist.destroy_process_group()
if __name__ == "__main__":
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.start_processes(rank_main, args=(port,), nprocs=2, start_method="fork")
    print("1000 rounds")
""",
    "loader": """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(400.0))
total = 0
for used_before in (False, True):
    loader = DataLoader(data, batch_size=10, num_workers=4, pin_memory=used_before, multiprocessing_context="fork")
    total += sum(batch.cuda(non_blocking=True).sum() for (batch,) in loader).item()
print(total)
""",
    "splitk": """
a, b = torch.rand(64, 65536, device="cuda"), torch.rand(65536, 64, device="cuda")
first = (a @ b, (a + 1) @ b)
for i in range(1000):
    now = (a @ b, (a + 1) @ b)
    if i % 50 == 49:
        assert torch.equal(now[0], first[0]) and torch.equal(now[1], first[1]), i
print(first[0].sum().item(), first[1].sum().item())
""",
    "times": """
begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
x = torch.rand(4096, 4096, device="cuda")
(x @ x).sum().item()
for _ in range(3):
    begin.record()
    for _ in range(20):
        y = x @ x
    end.record()
    end.synchronize()
    ms = begin.elapsed_time(end)
    assert 1 < ms < 2000, ms
print("times are plausible")
""",
    "profiler": """
from torch.profiler import profile, ProfilerActivity
x = torch.rand(256, 256, device="cuda")
(x @ x).relu().sum().item()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    for _ in range(10):
        ((x @ x).relu() + 1).sum()
    torch.cuda.synchronize()
names = sorted(event.name for event in p.events() if event.device_type == torch.autograd.DeviceType.CUDA)
print(len(names), names[0], names[-1])
""",
}

MODES = {
    "without the library": None,
    "under it": {},
    "held as long as possible": {"COISSUE_HOLD_CAP_US": "20000", "COISSUE_WINDOW": "1"},
}


def launches(path):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return sum(event.get("cat") == "cuda_driver" and "grid" in event.get("args", {}) for event in events)


def run(script, shim, settings, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith("COISSUE_") and k != "LD_PRELOAD"}
    trace = os.path.join(folder, "trace-%p.json")
    if settings is not None:
        env.update(settings, LD_PRELOAD=shim, COISSUE_TRACE=trace)
    process = subprocess.Popen([sys.executable, script], env=env, stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=90)
    path = trace.replace("%p", str(process.pid))
    return process.returncode, output, launches(path) if os.path.exists(path) else 0


def main():
    shim, workload = os.path.abspath(sys.argv[1]), sys.argv[2]
    expected = None
    with tempfile.TemporaryDirectory(prefix="traps-") as folder:
        script = os.path.join(folder, "workload.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(BEGIN + WORKLOADS[workload])
        for mode, settings in MODES.items():
            status, output, count = run(script, shim, settings, folder)
            print(f"{mode}: status {status}, {count} launches seen\n{output}", end="")
            if status == 77 and expected is None:
                return 77
            if status:
                return 1
            if expected is not None and output != expected:
                print("FAILED: the output differs")
                return 1
            # The ranks of the NCCL workload are children with traces of their own.
            if settings is not None and count == 0 and workload != "nccl":
                print("FAILED: the library saw no launch")
                return 1
            expected = output
    return 0


sys.exit(main())
