#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds coissue and measures everything that needs a GPU, in less than eight minutes:
#
#   bench/h200/run_all.sh OUTDIR COMMIT [part...]
#
# Parts, in the order in which they run: smoke, launch_cost, models, cublas, traps, launch_path, scheduler, wire;
# without any, all of them. Further parts run only if they are named, because all together take longer: micro, twins,
# pairs, model_pairs, coalesce. A part that fails or takes too long is recorded, and the others run. Each leaves
# OUTDIR/PART.log, and OUTDIR/PART.json if it measures something; a table is printed last. The exit status is 0 if no
# part failed.
#
#   SHIM=FILE        measure this library instead of building one (the programs are built in any case)
#   LIBRARIES=DIR    use the libcuda.so.1 in this folder: to try the script on a simulated device
#   LIMIT=SECONDS    for all parts together (default 450)
#   MODELS_LIMIT=, MODELS_SECONDS=SECONDS    for the models (default 210, of which it plans with 200)
#   QUICK=1          few repetitions: to try the script
# shellcheck disable=SC2317 # functions that a shell of their own calls
set -uo pipefail

if [ $# -lt 2 ]; then
    echo "usage: run_all.sh OUTDIR COMMIT [part...]" >&2
    exit 2
fi
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
commit=$2
shift 2
cd "$(dirname "$0")/../.." || exit 2

started=$(date +%s)
limit=${LIMIT:-450}
build="build-h200"
python=${PYTHON:-python3}
for variable in "${!COISSUE_@}" "${!SIMCUDA_@}"; do
    unset "$variable"
done
unset CUDA_LAUNCH_BLOCKING CUDA_VISIBLE_DEVICES
libraries=()
if [ -n "${LIBRARIES:-}" ]; then
    LIBRARIES=$(realpath "$LIBRARIES")
    export LIBRARIES
    libraries=(--libraries "$LIBRARIES")
fi

table=()
failed=0

# part NAME SECONDS COMMAND...: runs a part unless others were asked for, in its own time and what is left of all.
part()
{
    local name=$1 seconds=$2 begin status left
    shift 2
    case " $wanted " in
        *" $name "*) ;;
        *) return 0 ;;
    esac
    begin=$(date +%s)
    left=$((limit - (begin - started)))
    if [ $left -lt 5 ]; then
        table+=("$(printf '%-12s not run: the time is over' "$name")")
        failed=1
        return 0
    fi
    if [ $left -lt "$seconds" ]; then
        seconds=$left
    fi
    timeout --kill-after=5 "$seconds" "$@" >"$out/$name.log" 2>&1 </dev/null
    status=$?
    case $status in
        0) table+=("$(printf '%-12s ok, %d s' "$name" $(($(date +%s) - begin)))") ;;
        77) table+=("$(printf '%-12s skipped: %s' "$name" "$(tail -n 1 "$out/$name.log")")") ;;
        124 | 137) table+=("$(printf '%-12s FAILED: it took more than %d s' "$name" "$seconds")") failed=1 ;;
        *) table+=("$(printf '%-12s FAILED: status %d, %d s' "$name" $status $(($(date +%s) - begin)))") failed=1 ;;
    esac
}

build_all()
{
    local again=()
    if [ -d "$build" ]; then
        again=(--wipe)
    fi
    # The test suite needs libraries that a machine with a GPU may not have; what is run here does not.
    meson setup "$build" "${again[@]}" -Dtests=false -Dbuildtype=debugoptimized && ninja -C "$build"
}

# The functions from here on are started by `part`, in a shell of their own: timeout(1) starts programs.

# The programs of tests/shim, which meson builds only with the suite.
launch_path()
{
    local flags=(-std=gnu17 -O2 -g -D_GNU_SOURCE -fno-strict-aliasing -fvisibility=hidden -I.) program status=0
    local common=(tests/shim/launch_path.c driver/driver.c)
    for program in launch_path_is_clean launch_path_memory; do
        cc "${flags[@]}" -o "$out/$program" "tests/shim/$program.c" "${common[@]}" -lpthread -ldl || return 1
        echo "== $program"
        "$out/$program" "$shim" ${LIBRARIES:+"$LIBRARIES"} || status=1
        rm -f "$out/$program"
    done
    return "$status"
}

# Is there a GPU, does a program get on with the library, and does the library see it? Everything else rests on that.
smoke()
{
    nvidia-smi -L
    "$build/bench/launch_cost" --shim "$shim" "${libraries[@]}" --rounds 1 --bursts 4 --seconds 30
}

scheduler()
{
    [ -x "$build/bench/scheduler_cost" ] || { echo "scheduler_cost was not built"; return 77; }
    "$python" bench/h200/scheduler.py --program "$build/bench/scheduler_cost" --commit "$commit" --json "$out/scheduler.json"
}

wire()
{
    [ -x "$build/bench/wire_cost" ] || { echo "wire_cost was not built"; return 77; }
    "$python" bench/h200/wire.py --program "$build/bench/wire_cost" --commit "$commit" --json "$out/wire.json"
}

trap_tests()
{
    [ -f tests/traps/run.py ] || { echo "tests/traps is not there"; return 77; }
    "$python" bench/h200/traps.py --shim "$shim" --commit "$commit" --json "$out/traps.json" --seconds 75 \
        ${LIBRARIES:+--sim "$LIBRARIES"}
}

wanted=${*:-smoke launch_cost models cublas traps launch_path scheduler wire}
if ! (build_all) >"$out/build.log" 2>&1 </dev/null; then
    echo "build       FAILED: see build.log; its end:"
    tail -n 15 "$out/build.log"
    if [ ! -x "$build/bench/launch_cost" ] || { [ ! -f "$build/shim/libcoissue.so" ] && [ -z "${SHIM:-}" ]; }; then
        exit 1
    fi
    failed=1
fi
table+=("$(printf '%-12s %d s' build $(($(date +%s) - started)))")
shim=$(realpath "${SHIM:-$build/shim/libcoissue.so}")
quick_cost=()
quick_models=()
quick_cublas=()
quick_micro=()
quick_twins=()
quick_pairs=()
more_model_pairs=()
quick_coalesce=()
if [ -n "${QUICK:-}" ]; then
    quick_cost=(--rounds 1 --bursts 6)
    quick_models=(--rounds 1 --latency-passes 50)
    quick_cublas=(--rounds 1 --iterations 2)
    quick_micro=(--rounds 1 --repeat 10)
    quick_twins=(--models resnet18 --passes 4)
    quick_pairs=(--code sass --streams "2,16" --rounds 100 --launches 200000 --stale-least 1)
    more_model_pairs=(--models resnet18 --rounds "4,2,2")
    quick_coalesce=(--rounds 1 --work gemm --tenants "32,8,1")
fi
export build shim out commit python
export -f smoke launch_path scheduler wire trap_tests

part smoke 60 bash -c "$(declare -p libraries); smoke"
part launch_cost 110 "$build/bench/launch_cost" --shim "$shim" "${libraries[@]}" --commit "$commit" \
    --json "$out/launch_cost.json" --seconds 45 "${quick_cost[@]}"
part models "${MODELS_LIMIT:-210}" "$python" bench/h200/models.py --shim "$shim" --commit "$commit" --json "$out/models.json" --seconds "${MODELS_SECONDS:-200}" \
    "${quick_models[@]}"
part cublas 100 "$python" bench/h200/cublas.py --shim "$shim" --commit "$commit" --json "$out/cublas.json" --seconds 90 \
    "${quick_cublas[@]}"
part traps 85 bash -c trap_tests
part micro 45 "$python" bench/h200/micro.py --commit "$commit" --json "$out/micro.json" --seconds 30 "${quick_micro[@]}"
part twins 130 "$python" bench/h200/twins.py --shim "$shim" --commit "$commit" --json "$out/twins.json" --seconds 120 \
    "${quick_twins[@]}"
part pairs 150 "$python" bench/h200/pairs.py --shim "$shim" --commit "$commit" --json "$out/pairs.json" --seconds 120 \
    "${quick_pairs[@]}"
[ -f "$out/twins.json" ] && more_model_pairs+=(--twins "$out/twins.json")
part model_pairs 220 "$python" bench/h200/model_pairs.py --shim "$shim" --commit "$commit" --json "$out/model_pairs.json" \
    --seconds 200 "${more_model_pairs[@]}"
part coalesce 140 "$python" bench/h200/coalesce.py --shim "$shim" --commit "$commit" --json "$out/coalesce.json" \
    --seconds 110 "${quick_coalesce[@]}"
part launch_path 60 bash -c launch_path
part scheduler 30 bash -c scheduler
part wire 30 bash -c wire

for name in $wanted; do
    log=$out/$name.log
    [ -f "$log" ] || continue
    echo "== $name"
    case $name in
        smoke) grep -v thread "$log" | head -n 4 ;;
        launch_cost) grep -E '1 thread |8 threads|^met|^MISSED|failed|launch_cost:' "$log" | cut -c 1-130 ;;
        micro | pairs | model_pairs | coalesce | twins) tail -n 120 "$log" | cut -c 1-180 ;;
        *) tail -n 30 "$log" | cut -c 1-180 ;;
    esac
done
echo "== parts"
printf '%s\n' "${table[@]}"
echo "results in $out, $(($(date +%s) - started)) s"
exit $failed
