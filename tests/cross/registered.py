# SPDX-License-Identifier: Apache-2.0
"""Each case of cross.py is a test, and each test is a case.  registered.py meson.build cross.py"""
import re
import sys

sys.path.insert(0, sys.argv[2].rsplit("/", 1)[0])
import cross  # pylint: disable=wrong-import-position

with open(sys.argv[1], encoding="utf-8") as build:
    registered = set(re.findall(r"^\s+'([a-z-]+)': \d+,$", build.read(), re.M))
wrong = [f"{name} is no test" for name in sorted(set(cross.CASES) - registered)]
wrong += [f"{name} is no case" for name in sorted(registered - set(cross.CASES))]
print("\n".join(wrong) or f"{len(registered)} cases")
sys.exit(1 if wrong else 0)
