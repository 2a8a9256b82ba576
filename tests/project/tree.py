# SPDX-License-Identifier: Apache-2.0
"""What the checks of this folder share: the files of the project, and C text without its comments and strings."""
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Code of these folders is loaded into other people's processes.
LOADED = ("base", "driver", "wire", "trace", "scheduler", "coalesce", "engine", "shim")


def files(*suffixes, under=""):
    """Paths relative to the top, of the whole project or of a folder; build folders and hidden ones are left out."""
    found = []
    for folder, names, leaves in os.walk(os.path.join(TOP, under)):
        names[:] = sorted(n for n in names if not n.startswith((".", "build", "__pycache__")) or n == ".ci")
        for leaf in sorted(leaves):
            if not suffixes or leaf.endswith(suffixes):
                found.append(os.path.relpath(os.path.join(folder, leaf), TOP))
    return found


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def code_only(text):
    """The same text, same line numbers, with comments and the insides of strings and character constants blanked."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        found = match.group(0)
        if found[0] in "\"'":
            return found[0] + " " * (len(found) - 2) + found[0]
        return re.sub(r"[^\n]", " ", found)

    return token.sub(blank, text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def finish(complaints, fine):
    """Exit status of a check, after saying what was found."""
    for complaint in complaints:
        print(complaint)
    if not complaints:
        print(fine)
    return 1 if complaints else 0
