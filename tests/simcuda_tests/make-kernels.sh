#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes kernels.ptx from kernels.cu. sm_90 is needed by the kernel that reads its cluster, so that one is a file of its
# own; the rest is for sm_80 and runs on each simulated device.
set -eu
cd "$(dirname "$0")"
nvcc=${NVCC:-nvcc}
"$nvcc" -ptx -arch=compute_80 -DWITHOUT_CLUSTER -o kernels.ptx kernels.cu
"$nvcc" -ptx -arch=compute_90 -DONLY_CLUSTER -o cluster.ptx kernels.cu
# The comments that the compiler writes name paths and versions of one machine.
for file in kernels.ptx cluster.ptx; do
    grep -v '^//' "$file" > "$file.new"
    mv "$file.new" "$file"
done
# The same text as nvcc packs it: zstd by default, LZ4 with --compress-mode=speed.
"$nvcc" -fatbin -gencode arch=compute_80,code=compute_80 -DWITHOUT_CLUSTER -o kernels.zstd.fatbin kernels.cu
"$nvcc" -fatbin -gencode arch=compute_80,code=compute_80 -DWITHOUT_CLUSTER --compress-mode=speed \
    -o kernels.lz4.fatbin kernels.cu
