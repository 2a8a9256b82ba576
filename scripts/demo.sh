#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds coissue and shows it at work: several tenants launch kernels, without and with the library in front. The demo
# itself sees whether there is a GPU and takes the simulated device if not. Arguments are passed to it, e.g. --json FILE.
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."
top=$PWD

# Progress of the build goes to stderr, so that stdout is the demo's own.
{
    scripts/deps.sh
    if [ ! -d build/meson-private ]; then
        meson setup build
    fi
    meson compile -C build
} >&2

cd "$caller" # file names among the arguments are the caller's
exec "$top/build/demo/coissue-demo" "$@"
