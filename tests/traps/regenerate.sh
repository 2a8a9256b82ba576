#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the PTX files from kernels.cu. What needs clusters or programmatic launches is in a file of its own, for sm_90.
set -eu
cd "$(dirname "$0")"
nvcc=${NVCC:-nvcc}
"$nvcc" -ptx -arch=compute_80 -DWITHOUT_SM90 -o kernels.ptx kernels.cu
"$nvcc" -ptx -arch=compute_90 -DONLY_SM90 -o kernels_sm90.ptx kernels.cu
# The comments that the compiler writes name paths and versions of one machine.
for file in kernels.ptx kernels_sm90.ptx; do
    grep -v '^//' "$file" > "$file.new"
    mv "$file.new" "$file"
done
