#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a Python environment with CUDA programs that others wrote (cuda-core, Numba), for the tests that run them on the
# simulated device, and with NVIDIA's disassembler, for the tests of rewritten machine code. Prints the path of its interpreter. They come from PyPI, half a gigabyte unpacked; where it cannot be
# reached this fails, and those tests are skipped with a reason.
#
#   scripts/clients.sh [FOLDER]     default: .cache/clients
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-.cache/clients}
# Pinned: a new version may call driver functions that the simulated device lacks, which is for us to find, not for whoever
# runs the tests.
packages=(cuda-core==1.2.2 cuda-bindings==13.5.0 nvidia-cuda-nvrtc==13.5.37 numba==0.68.1 numba-cuda==0.30.4
          nvidia-cuda-nvdisasm==13.5.37)
stamp=$folder/installed

if [ "$(cat "$stamp" 2>/dev/null)" != "${packages[*]}" ]; then
    rm -rf "$folder"
    python3 -m venv "$folder" >&2
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-input --retries 1 --timeout 30 "${packages[@]}" >&2
    echo "${packages[*]}" >"$stamp"
fi
realpath -s "$folder/bin/python3"
