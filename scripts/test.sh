#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds coissue from nothing and runs every test, then runs them again under the sanitizers. Needs no GPU: tests that
# want one say so and are skipped. The last line is "N passed, N failed" (", N skipped" if any were), summed over all
# builds; the exit status is 0 only if nothing failed.
#
#   scripts/test.sh [--keep] [--fast]
#     --keep   reuse the build folders instead of starting from nothing
#     --fast   the plain build only, no sanitizers
set -euo pipefail
cd "$(dirname "$0")/.."

keep=no
fast=no
for argument in "$@"; do
    case $argument in
        --keep) keep=yes ;;
        --fast) fast=yes ;;
        *)
            echo "test.sh: unknown option '$argument'; known: --keep, --fast" >&2
            exit 2
            ;;
    esac
done

# A stray setting of the caller must not reach the programs under test.
for variable in "${!COISSUE_@}" "${!SIMCUDA_@}"; do
    unset "$variable"
done
unset LD_PRELOAD CUDA_VISIBLE_DEVICES CUDA_LAUNCH_BLOCKING

summary=()

# configure FOLDER [meson options]: a fresh build folder, or with --keep the one that is there.
configure()
{
    local folder=$1
    shift
    if [ -d "$folder" ] && [ $keep = no ]; then
        if [ ! -d "$folder/meson-private" ]; then
            echo "test.sh: $folder exists and is no build folder of meson; move it away" >&2
            exit 2
        fi
        rm -rf "$folder"
    fi
    if [ -d "$folder" ]; then
        rm -f "$folder/meson-logs/testlog.json"
        return 0
    fi
    meson setup "$folder" "$@"
}

# run_tests FOLDER [meson test options]. What failed shows its output here; the sum is made from the log.
run_tests()
{
    local folder=$1
    shift
    summary+=("$folder/meson-logs/testlog.json")
    meson test -C "$folder" --print-errorlogs "$@" </dev/null || summary+=(--status "$folder=$?")
}

# attempt WHAT COMMAND...: a step whose failure counts as one failed test instead of ending the run.
attempt()
{
    local what=$1
    shift
    "$@" && return 0
    echo "test.sh: failed: $what" >&2
    summary+=(--failed "$what")
    return 1
}

scripts/deps.sh

# Programs that others wrote. Without a network the tests that run them are skipped.
if clients=$(timeout 600 scripts/clients.sh); then
    export SIMCUDA_PYTHON=$clients
else
    echo "test.sh: cuda-core and Numba could not be installed, so their tests will be skipped" >&2
fi

if attempt "configure build" configure build && attempt "compile build" meson compile -C build; then
    run_tests build --no-rebuild
fi
# Warnings are judged in the plain build: the sanitizers' own code makes the compiler see things. -O1 is what their
# manuals advise, and builds faster.
sanitizer=(-Dwerror=false -Doptimization=1 -Db_lundef=false)
if [ $fast = no ]; then
    # ASan and UBSan: not for preloaded libraries (the sanitizer's own must come first in a process) and not for
    # tests that look at built files.
    if attempt "configure build-asan" configure build-asan -Db_sanitize=address,undefined "${sanitizer[@]}"; then
        run_tests build-asan --no-suite preload --no-suite stress --no-suite project --no-suite gpu \
            --timeout-multiplier 4
    fi
    # TSan: plain threaded programs; Criterion does not run under it.
    if attempt "configure build-tsan" configure build-tsan -Db_sanitize=thread "${sanitizer[@]}"; then
        run_tests build-tsan --suite stress --timeout-multiplier 4
    fi
fi

python3 scripts/sum-tests.py "${summary[@]}"
