#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a test that needs a GPU, or skips it with the reason:  need-gpu.sh PROGRAM [ARGUMENTS]
# The real driver is meant, so a simulated one that the caller's environment names is taken out of the way.
unset LD_LIBRARY_PATH LD_PRELOAD

skip()
{
    echo "needs a GPU: $1"
    exit 77
}

[ -e /dev/nvidiactl ] || skip "there is no /dev/nvidiactl"
command -v nvidia-smi >/dev/null || skip "nvidia-smi is not installed"
list=$(nvidia-smi -L 2>&1) || skip "nvidia-smi -L fails: $list"
case $list in
    GPU*) ;;
    *) skip "nvidia-smi -L lists none: $list" ;;
esac
exec "$@"
