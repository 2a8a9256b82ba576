#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs clang-tidy with .clang-tidy over the code that is loaded into programs, or over the files given. Slow, so no test.
#
#   scripts/lint.sh [FILE.c...]
set -euo pipefail
cd "$(dirname "$0")/.."

tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || {
    echo "lint.sh: clang-tidy is not installed (Debian: apt-get install clang-tidy)" >&2
    exit 1
}
if [ ! -f build/compile_commands.json ]; then
    meson setup build >/dev/null
fi
if [ $# = 0 ]; then
    shopt -s nullglob
    set -- {base,driver,trace,scheduler,coalesce,engine,shim,broker,cli,demo}/*.c
fi
# Files that no target builds have no compile command.
files=()
for file in "$@"; do
    if grep -q "\"file\": \".*/$file\"" build/compile_commands.json; then
        files+=("$file")
    else
        echo "lint.sh: no target builds $file, left out" >&2
    fi
done
# One file a process: version 14 mixes up the state of va_list between files. Options that only gcc knows are no finding.
printf '%s\0' "${files[@]}" |
    xargs -0 -r -n 1 -P "$(nproc)" "$tidy" -p build --quiet --extra-arg=-Wno-unknown-warning-option
echo "lint.sh: ${#files[@]} files are clean"
