#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trap 6: the library sees the same launches of a program whichever way its CUDA runtime came: runtime.py SHIM SOURCE"""
import json
import os
import shutil
import subprocess
import sys
import tempfile


def seen(path):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return sum(event.get("cat") == "cuda_driver" and "grid" in event.get("args", {}) for event in events)


def main():
    shim, source = map(os.path.abspath, sys.argv[1:])
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        print("needs nvcc")
        return 77
    with tempfile.TemporaryDirectory(prefix="traps-") as folder:
        for kind in ("static", "shared"):
            program, trace = os.path.join(folder, kind), os.path.join(folder, kind + ".json")
            subprocess.run([nvcc, "-cudart", kind, "-o", program, source], check=True)
            library_path = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "lib64")
            subprocess.run([program], check=True, timeout=60,
                           env={**os.environ, "LD_PRELOAD": shim, "COISSUE_TRACE": trace, "LD_LIBRARY_PATH": library_path})
            count = seen(trace)
            print(f"{kind} runtime: the library saw {count} launches")
            if count != 100:
                return 1
    return 0


sys.exit(main())
