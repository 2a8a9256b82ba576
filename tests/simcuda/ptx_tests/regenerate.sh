#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Remakes the .ptx files next to the .cu files. Needs nvcc (NVCC, or the one in PATH, or /usr/local/cuda/bin/nvcc); the
# tests themselves need only the .ptx files. *_debug.ptx are unoptimised (-G), most for sm_80, *_fast.ptx use --use_fast_math.
set -eu
cd "$(dirname "$0")/kernels"
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [ ! -x "$nvcc" ]; then
    echo "regenerate.sh: no nvcc found; set NVCC" >&2
    exit 77
fi
for source in *.cu; do
    name=${source%.cu}
    "$nvcc" -ptx -arch=compute_90 -O3 -o "$name.ptx" "$source"
done
for name in basic shared control warp; do
    arch=80
    [ $name = warp ] && arch=90 # elect.sync
    "$nvcc" -ptx -arch=compute_$arch -G -o "$name"_debug.ptx "$name.cu"
    # debug sections hold paths of the machine that made them and nothing that runs; without them .target says no "debug"
    sed -i -e '/^[[:space:]]*\.section/,$d' -e 's/^\(\.target sm_[0-9]*\), debug$/\1/' "$name"_debug.ptx
    sed -i -e '/^[[:space:]]*\.file/d' -e '/^[[:space:]]*\.loc[[:space:]]/d' "$name"_debug.ptx
done
"$nvcc" -ptx -arch=compute_90 -O3 --use_fast_math -o math_fast.ptx math.cu
