#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a Python client program on the simulated device, with the library preloaded if it is named. Exit status: the
client's (77: skipped, with its reason), or 1 if the library was preloaded and held none of its launches.

usage: run-client.py FOLDER_OF_LIBCUDA CLIENT [LIBCOISSUE]
Environment: SIMCUDA_PYTHON names the interpreter with the client's packages (scripts/clients.sh makes one); default: this
one.
"""
import os
import re
import subprocess
import sys
import tempfile


def held(summary):
    """How many launches the summary on stderr says were held."""
    found = re.search(r"([0-9,]+) +[0-9.]+ % +held in the queue", summary)
    return int(found[1].replace(",", "")) if found else 0


def main():
    folder, client = sys.argv[1:3]
    shim = sys.argv[3] if len(sys.argv) > 3 else None
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
        if shim:
            environment.update(LD_PRELOAD=os.path.abspath(shim), COISSUE_SUMMARY="on")
        run = subprocess.run([python, client], env=environment, timeout=100, stderr=subprocess.PIPE, text=True)
        sys.stderr.write(run.stderr)
        if shim and run.returncode == 0 and held(run.stderr) == 0:
            print("no launch was held: the library was not in the way of this client")
            return 1
        return run.returncode


sys.exit(main())
