# SPDX-License-Identifier: Apache-2.0
"""Compares what commands print, and their exit status, with a transcript.

  transcript.py FILE FOLDER... [--update]

FILE has blocks of a line "$ COMMAND", what it prints (stdout and stderr together), and "[exit N]" if that is not 0.
Lines that begin with "#" are comments. Commands run in a fresh folder by sh, with the FOLDERs in front of PATH, in an
environment without COISSUE_, CUDA_ and SIMCUDA_ variables. Names of folders are replaced before the comparison.
--update writes what was seen into FILE; look at the difference before you believe it.
"""
import difflib
import os
import re
import socket
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def clean_environment(folders, temporary):
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("COISSUE_", "CUDA_", "SIMCUDA_")) and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    return {**kept, "PATH": ":".join([*folders, kept.get("PATH", "/usr/bin:/bin")]), "TMPDIR": temporary, "TOP": TOP,
            "LC_ALL": "C"}


def normalise(text, folders, temporary):
    build = os.path.realpath(os.path.join(folders[0], ".."))
    for name, shown in ((os.path.realpath(temporary), "TMP"), (temporary, "TMP"), (build, "BUILD"), (TOP, "TOP")):
        text = text.replace(name, shown)
    host = re.escape(socket.gethostname())
    text = re.sub(rf"\bprocess \d+ on {host},", "process PID on HOST,", text)
    text = re.sub(rf'"host": "{host}"', '"host": "HOST"', text)
    return re.sub(r'"pid": \d+', '"pid": PID', text)


def run(command, folders, temporary):
    result = subprocess.run(["/bin/sh", "-c", command], cwd=temporary, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=clean_environment(folders, temporary), timeout=60,
                            check=False)
    text = normalise(result.stdout.decode("utf-8", "backslashreplace"), folders, temporary)
    if text and not text.endswith("\n"):
        text += "\n[no newline]\n"
    status = 128 - result.returncode if result.returncode < 0 else result.returncode
    return text + (f"[exit {status}]\n" if status else "")


def main():
    path, *folders = [a for a in sys.argv[1:] if a != "--update"]
    folders = [os.path.abspath(folder) for folder in folders]
    with open(path, encoding="utf-8") as file:
        wanted = file.read()
    seen, commands = "", 0
    with tempfile.TemporaryDirectory() as temporary:
        for line in wanted.splitlines(keepends=True):
            if line.startswith("#"):
                seen += line
            elif line.startswith("$ "):
                seen += line + run(line[2:].rstrip("\n"), folders, temporary)
                commands += 1
    if not commands:
        print(f"{path} has no command")
        return 1
    if "--update" in sys.argv[1:]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(seen)
        return 0
    difference = list(difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "transcript", "seen", lineterm=""))
    print("\n".join(difference) if difference else f"{commands} commands print what the transcript says")
    return 1 if difference else 0


sys.exit(main())
