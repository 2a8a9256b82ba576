#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Remakes kernels.ptx from kernels.cu. Needs nvcc (NVCC, or the one in PATH, or /usr/local/cuda/bin/nvcc); building the
# demo does not.
set -eu
cd "$(dirname "$0")"
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [ ! -x "$nvcc" ]; then
    echo "regenerate.sh: no nvcc found; set NVCC" >&2
    exit 1
fi
"$nvcc" -ptx -arch=sm_80 -O3 -o kernels.ptx kernels.cu
# The compiler writes its own version of PTX, which only drivers as new as itself take. 7.0 is the first with sm_80, and
# has all that these kernels use.
sed -i 's/^\.version .*/.version 7.0/' kernels.ptx
