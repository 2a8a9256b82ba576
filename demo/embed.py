# SPDX-License-Identifier: Apache-2.0
"""Makes a C header of a text file, as one constant string.  embed.py NAME INPUT OUTPUT"""
import sys


def main():
    name, source, target = sys.argv[1:]
    with open(source, "rb") as file:
        data = file.read()
    if b"\0" in data:
        sys.exit(f"embed.py: {source} is not text: it has a NUL byte")
    rows = [data[i:i + 16] for i in range(0, len(data), 16)] + [b"\0"]
    with open(target, "w", encoding="ascii") as file:
        file.write("/* SPDX-License-Identifier: Apache-2.0\n *\n * Made by embed.py. Ends with a NUL. */\n")
        file.write(f"static const unsigned char {name}[] = {{\n")
        for row in rows:
            file.write("    " + " ".join(f"{byte}," for byte in row) + "\n")
        file.write("};\n")


main()
