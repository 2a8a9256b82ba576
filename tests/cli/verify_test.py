# SPDX-License-Identifier: Apache-2.0
"""coissue verify on a program whose kernels run.  verify_test.py COISSUE SIMULATED_FOLDER VERIFY_CLIENT"""
import json
import os
import subprocess
import sys
import tempfile

COISSUE, SIMULATED, CLIENT = (os.path.abspath(path) for path in sys.argv[1:])
complaints = []


def verify(arguments, *options, **variables):
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("COISSUE_", "CUDA_", "SIMCUDA_")) and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer.json")
        environment = {**kept, "LD_LIBRARY_PATH": SIMULATED, "LC_ALL": "C", "TMPDIR": folder, "COISSUE_CACHE": "off", **variables}
        result = subprocess.run([COISSUE, "verify", "--stderr", "--json", answer, *options, "--", CLIENT, *arguments.split()],
                                env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
                                check=False)
        with open(answer, encoding="utf-8") as file:
            return result.returncode, result.stdout + result.stderr, json.load(file)


def expect(what, answer, status, *said, **values):
    code, text, found = answer
    wrong = [f"{line!r} is not said" for line in said if line not in text]
    wrong += [f"{key} is {found.get(key)}, not {value}" for key, value in values.items() if found.get(key) != value]
    if code != status:
        wrong.append(f"exit status {code}, not {status}")
    if wrong:
        complaints.append(f"{what}: {'; '.join(wrong)}\n{text}")


def main():
    expect("one process", verify("add"), 0, "Verified: ", "launches: 100 in 1 process\n", "replaced: 100 (100.0 %)",
           "stdout:   equal, 7 bytes", verified=True, equal=True, launches=100, replaced=100, processes=1)
    expect("several processes", verify("add 3", "--limit", "100"), 0, "Verified: ", verified=True, launches=300, replaced=300,
           processes=3)
    expect("a kernel that cannot be rewritten", verify("mixed"), 0, "Verified: ",
           "       3  large\n          PARAMETERS: one member's parameters leave no room for a second one", verified=True,
           launches=103, replaced=100)
    expect("a limit", verify("mixed", "--limit", "98"), 1, "NOT VERIFIED: fewer than 98 %", verified=False, equal=True)
    expect("another output", verify("wrong"), 1, "NOT VERIFIED: the program behaves differently", "plainly    as they are",
           "rewritten  rewritten", verified=False, equal=False, launches=100, replaced=100)
    expect("a program that fails both times", verify("fails"), 0, "exit status 3, both times", verified=True)
    expect("a driver that refuses rewritten kernels", verify("add", SIMCUDA_FAIL="cuLibraryLoadData:1+:301"), 0,
           "LOAD: the driver refused the rewritten kernel", verified=True, launches=100, replaced=0)
    expect("launches that are not held", verify("add", CUDA_LAUNCH_BLOCKING="1"), 1, "NOT VERIFIED: no launch was held",
           verified=False, equal=True, launches=0)
    for complaint in complaints:
        print(complaint)
    if not complaints:
        print("verify says what was replaced, and why the rest was not")
    return 1 if complaints else 0


sys.exit(main())
