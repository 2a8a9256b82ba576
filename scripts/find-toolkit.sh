#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prints the include folder of a CUDA toolkit that has cuda.h and cudaProfiler.h; with --stub, the stub libcuda.so of
# that toolkit. Status 1 and one line on stderr if there is none. The newest toolkit wins.
#
# Looked at: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda*, /opt/cuda, Debian's own package, and the layout of NVIDIA's
# Python wheels (site-packages/nvidia/cu13/include, nvidia/cuda_runtime/include).

candidates()
{
    for folder in "$CUDA_HOME" "$CUDA_PATH"; do
        [ -n "$folder" ] && echo "$folder/include"
    done
    for folder in /usr/local/cuda /opt/cuda; do
        echo "$folder/include"
    done
    for folder in /usr/local/cuda-*; do
        echo "$folder/include"
    done | sort -rV
    python3 - <<'EOF' 2>/dev/null
import glob, os, site, sysconfig
folders = {sysconfig.get_paths()["purelib"], site.getusersitepackages(), *site.getsitepackages()}
for folder in sorted(folders):
    for pattern in ("nvidia/cu[0-9]*/include", "nvidia/cuda_runtime/include", "nvidia/cuda_driver/include"):
        print(*sorted(glob.glob(os.path.join(folder, pattern)), reverse=True), sep="\n")
EOF
    echo /usr/include
}

include=$(candidates | while read -r folder; do
    if [ -r "$folder/cuda.h" ] && [ -r "$folder/cudaProfiler.h" ]; then
        echo "$folder"
        break
    fi
done)
if [ -z "$include" ]; then
    echo "no CUDA toolkit found (cuda.h and cudaProfiler.h); set CUDA_HOME if there is one" >&2
    exit 1
fi
if [ "$1" != --stub ]; then
    echo "$include"
    exit 0
fi
base=${include%/include}
for stub in "$base"/lib64/stubs/libcuda.so "$base"/lib/stubs/libcuda.so "$base"/targets/*/lib/stubs/libcuda.so \
    /usr/lib/"$(uname -m)"-linux-gnu/stubs/libcuda.so; do
    if [ -r "$stub" ]; then
        echo "$stub"
        exit 0
    fi
done
echo "the CUDA toolkit of $include has no stub libcuda.so" >&2
exit 1
