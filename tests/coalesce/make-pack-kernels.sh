#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes pack_kernels.ptx from pack_kernels.cu, without the comments that name paths and versions of one machine.
set -eu
cd "$(dirname "$0")"
"${NVCC:-nvcc}" -ptx -arch=compute_80 -o pack_kernels.ptx.new pack_kernels.cu
grep -v '^//' pack_kernels.ptx.new > pack_kernels.ptx
rm pack_kernels.ptx.new
