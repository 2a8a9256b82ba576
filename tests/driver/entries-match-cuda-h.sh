#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles driver/entries.def against the real prototypes.  entries-match-cuda-h.sh TOP "CC WORDS"
top=$1
include=$("$top/scripts/find-toolkit.sh" 2>&1) || { echo "$include"; exit 77; }
version=$(printf '#include <cuda.h>\nCUDA_VERSION\n' | $2 -E -P -I"$include" -x c - | tail -n 1)
case $version in
    13[0-9][0-9][0-9]) ;;
    *) echo "the table is for CUDA 13, the toolkit in $include has version $version"; exit 77 ;;
esac
exec $2 -std=gnu17 -Wall -Werror -fsyntax-only -I"$top" -I"$include" "$top/tests/driver/entries_match_cuda_h.c"
