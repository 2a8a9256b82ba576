#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traps 7, 32 and 40: what a preloaded library does to processes that are none of its business.

  children.py SHIM SIM PROGRAM TEST

  quiet    programs that never call CUDA give the same output under the preload, and leave nothing behind
  quickly  200 processes at once, each with the library, take about as long as without it
  unheard  a program whose stderr nobody reads ends as it does without the library, though there is a summary to print
  killed   a process that is killed in the middle of its launches leaves another one as it was
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

SCRIPT = """
echo begin; ls / | head -1; (echo in a subshell); python3 -c 'import os; print(sorted(os.listdir("/proc/self/task"))[1:])'
bash -c 'exec bash -c "echo after two execs"'; echo oops >&2; exit 3
"""


def environment(shim, sim, folder, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("COISSUE_", "SIMCUDA_", "CUDA_", "LD_"))}
    if shim:
        env.update(LD_PRELOAD=shim, LD_LIBRARY_PATH=sim, COISSUE_TRACE=os.path.join(folder, "trace-%p.json"),
                   COISSUE_SUMMARY="on", COISSUE_LOG="trace")
    env.update(more)
    return env


def quiet(shim, sim, program, folder):
    def shell(preload):
        done = subprocess.run(["bash", "-c", SCRIPT], env=environment(preload, sim, folder), capture_output=True,
                              timeout=30, check=False)
        return done.returncode, done.stdout, done.stderr

    without, under = shell(None), shell(shim)
    if without[0] != 3 or b"after two execs" not in without[1]:
        return f"the script does not work without the library: {without}"
    if without != under:
        return f"without the library: {without}\nunder it: {under}"
    if os.listdir(folder):
        return f"files were left: {os.listdir(folder)}"
    return None


def quickly(shim, sim, program, folder):
    def crowd(preload):
        began = time.monotonic()
        children = [subprocess.Popen(["/bin/true"], env=environment(preload, sim, folder)) for _ in range(200)]
        if any(child.wait(timeout=30) for child in children):
            raise AssertionError("a child failed")
        return time.monotonic() - began

    crowd(None)
    without, under = crowd(None), crowd(shim)
    print(f"200 processes: {without:.3f} s without the library, {under:.3f} s under it")
    if under > 3 * without + 2:
        return "the library makes processes start slowly"
    return None


def unheard(shim, sim, program, folder):
    def end(preload, mode):
        reader, writer = os.pipe()
        os.close(reader)
        env = environment(preload, sim, folder, LD_LIBRARY_PATH=sim, TRAPS_MODE=mode)
        try:
            done = subprocess.run([program, "trap-39-four-threads-share-one-stream"], env=env, stdout=subprocess.PIPE,
                                  stderr=writer, timeout=60, check=False)
        finally:
            os.close(writer)
        return done.returncode

    without, under = end(None, "direct"), end(shim, "full")
    if without:
        return f"the program does not work without the library: it ended with {without}"
    if under != without:
        return f"without the library the program ended with {without}, under it with {under}"
    return None


def killed(shim, sim, program, folder):
    def start(scenario, mode):
        return subprocess.Popen([program, scenario], env=environment(shim, sim, folder, TRAPS_MODE=mode),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    for delay in (0.05, 0.15, 0.3):
        victim = start("trap-39-eight-threads-launch-without-losing-one", "full")
        other = start("trap-39-four-threads-share-one-stream", "full")
        time.sleep(delay)
        victim.send_signal(signal.SIGKILL)
        victim.communicate(timeout=30)
        output, _ = other.communicate(timeout=30)
        if other.returncode:
            return f"the other process ended with {other.returncode}:\n{output}"
    return None


TESTS = {"quiet": quiet, "quickly": quickly, "unheard": unheard, "killed": killed}


def main():
    shim, sim, program = map(os.path.abspath, sys.argv[1:4])
    test = sys.argv[4]
    with tempfile.TemporaryDirectory(prefix="traps-") as folder:
        complaint = TESTS[test](shim, sim, program, folder)
    if complaint:
        print(f"FAILED: {complaint}")
    return 1 if complaint else 0


sys.exit(main())
