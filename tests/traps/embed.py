#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes text files as C strings: embed.py OUT.c HEADER NAME=FILE... (NAME is declared in HEADER)."""
import sys


def literal(line):
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '\\n"'


def main():
    out, header, *pairs = sys.argv[1:]
    with open(out, "w", encoding="ascii") as file:
        file.write(f'#include "{header}"\n')
        for pair in pairs:
            name, path = pair.split("=", 1)
            with open(path, encoding="ascii") as text:
                lines = text.read().splitlines()
            file.write(f"\nconst char {name}[] =\n" + "\n".join("    " + literal(line) for line in lines) + ";\n")


main()
