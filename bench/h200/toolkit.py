# SPDX-License-Identifier: Apache-2.0
"""Building the CUDA programs of this folder on the machine that runs them."""

import glob
import os
import shutil
import subprocess
import sys

import report

HERE = os.path.dirname(os.path.abspath(__file__))
# Machine code for the H200, and PTX for others: also for the simulated device, which runs nothing else.
BOTH = ["-gencode", "arch=compute_90,code=sm_90", "-gencode", "arch=compute_80,code=compute_80"]
SASS = ["-gencode", "arch=compute_90,code=sm_90"]
PTX = ["-gencode", "arch=compute_90,code=compute_90"]


def roots():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    found = [os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "/usr/local/cuda"]
    for path in sys.path:
        found += [os.path.join(path, "nvidia", "cu13"), os.path.join(path, "nvidia", "cublas")]
    return nvcc, found


def cublas_flags():
    """cuBLAS may come with the toolkit or with Python packages."""
    _, places = roots()
    for root in places:
        for lib in ("lib64", "lib", "targets/x86_64-linux/lib"):
            found = sorted(glob.glob(os.path.join(root, lib, "libcublas.so*")))
            if found:
                folder = os.path.dirname(found[-1])
                includes = [os.path.join(r, "include") for r in places if os.path.isdir(os.path.join(r, "include"))]
                return ["-L", folder, "-l:" + os.path.basename(found[-1]),
                        *[word for path in includes for word in ("-I", path)],
                        "-Xlinker", "-rpath," + folder, "-Xlinker", "-rpath-link," + folder]
    raise SystemExit("toolkit.py: no libcublas.so found in " + ", ".join(places))


def build(folder, source, name=None, targets=BOTH, cudart="static", cublas=False, timeout=180):
    """Compiles one file of this folder into `folder`; returns the program's path."""
    nvcc, _ = roots()
    program = os.path.join(folder, name or source.removesuffix(".cu"))
    command = [nvcc, "-O2", "-std=c++17", *targets, "-cudart", cudart, "-o", program, os.path.join(HERE, source),
               *(cublas_flags() if cublas else []), "-ldl", "-lpthread"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemExit(f"toolkit.py: {' '.join(command)}: {error}")
    if done.returncode != 0:
        raise SystemExit(f"toolkit.py: {' '.join(command)}: {report.tail(done.stdout + done.stderr)}")
    return program
