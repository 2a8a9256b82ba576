# SPDX-License-Identifier: Apache-2.0
"""coissue doctor says what is wrong.  doctor_test.py COISSUE FAKE_DRIVER FAKE_NEWER_DRIVER SIMULATED_FOLDER"""
import ctypes
import os
import subprocess
import sys
import tempfile

COISSUE, FAKE, NEWER, SIMULATED = (os.path.abspath(path) for path in sys.argv[1:])
complaints = []


def doctor(**variables):
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("COISSUE_", "CUDA_", "SIMCUDA_")) and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    result = subprocess.run([COISSUE, "doctor"], env={**kept, "LC_ALL": "C", **variables}, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=100, check=False)
    return result.returncode, result.stdout + result.stderr


def expect(what, answer, status, *said, unsaid=()):
    code, text = answer
    wrong = [f"{line!r} is not said" for line in said if line not in text]
    wrong += [f"{line!r} is said" for line in unsaid if line in text]
    if code != status:
        wrong.append(f"exit status {code}, not {status}")
    if wrong:
        complaints.append(f"{what}: {'; '.join(wrong)}\n{text}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        driver = os.path.join(folder, "libcuda.so.1")
        os.symlink(FAKE, driver)
        here = {"LD_LIBRARY_PATH": folder}
        expect("a driver that works", doctor(**here), 1, "for CUDA 12.4", "ok    device 0 is imaginary",
               "look-ups of functions go through it", "FAIL  programs find cuLaunchKernel in no file",
               "warn  launches are not coalesced: this driver cannot load rewritten kernels, for it lacks cuLibraryLoadData, ",
               unsaid=["launches can be coalesced", "Zstandard"])
        expect("no device", doctor(FAKE_DRIVER="no-device", **here), 1, "FAIL  the driver cannot begin: cuInit: CUDA_ERROR_NO_DEVICE")
        expect("an empty list", doctor(FAKE_DRIVER="empty", **here), 1, "FAIL  the driver has no device to offer")
        expect("a driver that crashes", doctor(FAKE_DRIVER="crash", **here), 1,
               "FAIL  a process that loads the CUDA driver was ended by signal 6", "coissue cannot be used here")
        expect("no library", doctor(COISSUE_LIBRARY="/nowhere.so", **here), 1, "FAIL  there is no libcoissue.so to preload",
               "COISSUE_LIBRARY: '/nowhere.so': No such file")
        os.unlink(driver)
        with open(driver, "w", encoding="ascii") as file:
            file.write("text")
        expect("no driver", doctor(**here), 1, "FAIL  the CUDA driver cannot be loaded", "file too short",
               "ok    it is preloaded into a program", unsaid=["device 0", "coalesced"])
        expect("variables", doctor(CUDA_LAUNCH_BLOCKING="1", CUDA_VISIBLE_DEVICES="0", COISSUE_MODE="off", COISSUE_WINDOW="x",
                                   COISSUE_LIBRARY="", **here), 1,
               "warn  CUDA_LAUNCH_BLOCKING=1: each launch waits", "note  CUDA_VISIBLE_DEVICES=0",
               "warn  COISSUE_MODE switches coissue off", 'warn  COISSUE_WINDOW: "x" is not a whole number')
        expect("not blocking", doctor(CUDA_LAUNCH_BLOCKING="0", **here), 1, unsaid=["CUDA_LAUNCH_BLOCKING", "switches coissue off"])

        mps = os.path.join(folder, "mps")
        pid_file = os.path.join(mps, "nvidia-cuda-mps-control.pid")
        settings = {"CUDA_MPS_PIPE_DIRECTORY": mps, **here}
        expect("no MPS", doctor(**settings), 1, "note  no MPS daemon")
        os.mkdir(mps)
        os.mkfifo(os.path.join(mps, "control"))
        expect("a pipe", doctor(**settings), 1, "whether an MPS daemon serves it cannot be seen")
        with open(pid_file, "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
        expect("MPS", doctor(**settings), 1, f"ok    an MPS daemon (process {os.getpid()}) serves")
        gone = subprocess.Popen(["true"])
        gone.wait()
        with open(pid_file, "w", encoding="ascii") as file:
            file.write(f"{gone.pid}\n")
        expect("MPS that ended", doctor(**settings), 1, f"its MPS daemon (process {gone.pid}) is not")

    expect("the simulated device", doctor(LD_LIBRARY_PATH=SIMULATED), 0, "for CUDA 13.0", "ok    device 0 is",
           "ok    it is preloaded into a program", "go through it; the others need no order", "coissue can be used here.",
           "ok    launches can be coalesced: this driver can load rewritten kernels", *inflaters(), unsaid=["FAIL"])
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(NEWER, os.path.join(folder, "libcuda.so.1"))
        expect("decompressors", doctor(LD_LIBRARY_PATH=folder), 1, "ok    launches can be coalesced", *inflaters())
        for name in ("libzstd.so.1", "liblz4.so.1"):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write("text")
        expect("no decompressors", doctor(LD_LIBRARY_PATH=folder), 1, "ok    launches can be coalesced",
               "warn  kernels in images that are compressed by Zstandard are not coalesced: libzstd.so.1 is missing",
               "warn  kernels in images that are compressed by LZ4 are not coalesced: liblz4.so.1 is missing")
    expect("no coalescing", doctor(LD_LIBRARY_PATH=SIMULATED, COISSUE_COALESCE="off"), 0,
           "note  COISSUE_COALESCE switches coalescing off")
    expect("mode gate", doctor(LD_LIBRARY_PATH=SIMULATED, COISSUE_MODE="gate"), 0,
           "note  launches are only coalesced in mode full")
    expect("a verification", doctor(LD_LIBRARY_PATH=SIMULATED, COISSUE_VERIFY="x"), 0, "note  COISSUE_VERIFY is for testing")
    expect("preloaded already", doctor(LD_LIBRARY_PATH=SIMULATED, LD_PRELOAD=library_of(SIMULATED)), 0,
           "note  LD_PRELOAD=", "coissue can be used here.", unsaid=["FAIL"])
    for complaint in complaints:
        print(complaint)
    if not complaints:
        print("doctor says what is wrong in each case")
    return 1 if complaints else 0


def inflaters():
    """What is said of the decompressors, which this machine may have or not."""
    for what, name in (("Zstandard", "libzstd.so.1"), ("LZ4", "liblz4.so.1")):
        try:
            ctypes.CDLL(name)
            yield f"ok    kernels in images that are compressed by {what} can be coalesced: "
        except OSError:
            yield f"warn  kernels in images that are compressed by {what} are not coalesced: {name} is missing"


def library_of(simulated):
    """The library that doctor itself finds."""
    return next(line.split(" is ")[1] for line in doctor(LD_LIBRARY_PATH=simulated)[1].splitlines()
                if line.startswith("ok    the library is "))


sys.exit(main())
