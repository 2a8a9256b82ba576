#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes sass_kernels.cubin again; needs nvcc. The tests do not depend on the version of nvcc, only on what the kernels do.
set -eu
cd "$(dirname "$0")"
nvcc -cubin -arch=sm_90 -O3 sass_kernels.cu -o sass_kernels.cubin
