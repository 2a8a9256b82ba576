#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a Python client program on the simulated device. Exit status: the client's (77: skipped, with its reason).

usage: run-client.py FOLDER_OF_LIBCUDA CLIENT
Environment: SIMCUDA_PYTHON names the interpreter with the client's packages; default: this one.
"""
import os
import subprocess
import sys
import tempfile


def main():
    folder, client = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as empty:
        # nvJitLink makes machine code, which the simulated device does not run. With a file in its place that cannot be
        # loaded, Numba and cuda-core let the driver link, and that takes PTX.
        for version in ("12", "13"):
            with open(os.path.join(empty, f"libnvJitLink.so.{version}"), "w") as file:
                file.write("not a library\n")
        environment = dict(os.environ, LD_LIBRARY_PATH=f"{folder}:{empty}")
        environment["LD_LIBRARY_PATH"] += ":" + os.environ.get("LD_LIBRARY_PATH", "")
        for name in ("CUDA_HOME", "CUDA_PATH"):  # a toolkit has an nvJitLink too
            environment.pop(name, None)
        python = os.environ.get("SIMCUDA_PYTHON", sys.executable)
        return subprocess.run([python, client], env=environment, timeout=100).returncode


sys.exit(main())
