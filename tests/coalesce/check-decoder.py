#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For development: compares the decoder's view of machine code with a disassembler's text.

usage: [ARCHITECTURE=SM80] check-decoder.py REWRITE_TOOL NVDISASM CUBIN...

Words of all sections with code are taken once for each combination of opcode, bit 91 and bits 95:64 (modifiers), at most
400 for each opcode. For each word, compared are: uniform registers that are written, constant operands, special
registers. Prints each disagreement once and exits with 1 if there was one.
"""
import os, re, struct, subprocess, sys, tempfile

SPECIAL = {'SR_CTAID.X': 37, 'SR_CTAID.Y': 38, 'SR_CTAID.Z': 39, 'SRZ': 255, 'SR_TID.X': 33, 'SR_LANEID': 0}
# Instructions whose first operand is a uniform register that they only read.
READERS = re.compile(r'(UTMA|UBLK|USETMAXREG|USETSHMSZ|UCGABAR|UR2UP|UISETP|UPLOP3|BRX|BRA)')


def code(path):
    data = open(path, 'rb').read()
    if data[:4] != b'\x7fELF':
        return
    table, count = struct.unpack_from('<Q', data, 40)[0], struct.unpack_from('<H', data, 60)[0]
    for i in range(count):
        _, kind, flags, _, offset, size = struct.unpack_from('<IIQQQQ', data, table + 64 * i)
        if kind == 1 and flags & 4:
            yield from struct.iter_unpack('<QQ', data[offset:offset + size // 16 * 16])


def sample(paths):
    seen, counts, words = set(), {}, []
    for path in paths:
        for low, high in code(path):
            opcode = low & 0xfff | (high >> 27 & 1) << 12
            key = opcode, high & 0xffffff00, low >> 16 & 0xff if opcode & 0x80 else 0
            if key in seen or counts.get(opcode, 0) >= 400:
                continue
            seen.add(key)
            counts[opcode] = counts.get(opcode, 0) + 1
            words.append((low, high & (1 << 41) - 1 | 0xfc00000000000))
    return words, len(counts)


def expected(text):
    """(written, constants, special) of a line of disassembly."""
    text = re.sub(r'^@!?U?P\w+\s+', '', text)
    name, _, rest = text.partition(' ')
    written = 0
    operands = [o.strip() for o in rest.split(',')]
    while operands and re.fullmatch(r'!?(U?P\d|U?PT)', operands[0]):
        operands.pop(0)
    first = re.fullmatch(r'UR(\d+)', operands[0]) if operands else None
    if first and not READERS.match(name) and name.split('.')[0] not in ('BRX', 'JMX'):
        written = 3 << (int(first[1]) & ~1)
    constant = re.search(r'c\[0x([0-9a-f]+)\]\s*\[(?:U?R\w+(?:\.\w+)*)?\+?(-?0x[0-9a-f]+)?\]', text)
    where = (int(constant[1], 16), int(constant[2] or '0', 16) & 0xffff) if constant else None
    special = re.search(r'\b(SR_\S+|SRZ)\b', text) if name.startswith(('S2R', 'S2UR', 'CS2R')) else None
    return written, where, SPECIAL.get(special[1]) if special else None


def main(tool, disassembler, paths):
    words, opcodes = sample(paths)
    with tempfile.NamedTemporaryFile(suffix='.bin') as file:
        file.write(b''.join(struct.pack('<QQ', *word) for word in words))
        file.flush()
        architecture = os.environ.get('ARCHITECTURE', 'SM90a')
        listing = subprocess.run([disassembler, '-b', architecture, '-hex', file.name], capture_output=True, text=True)
        decoded = subprocess.run([tool, '--decode', file.name], capture_output=True, text=True).stdout.splitlines()
    texts = {}
    for line in listing.stdout.splitlines():
        match = re.match(r'\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*/\* 0x', line)
        if match:
            texts[int(match[1], 16) // 16] = match[2].strip().rstrip(' ;')
    told, compared = set(), 0
    for i, line in enumerate(decoded):
        if i not in texts:
            continue
        compared += 1
        opcode, name, written, constant, special = line.split('\t')
        want = expected(texts[i])
        fields = constant.split(' ')
        got = (int(written, 16), (int(fields[0][1:]), int(fields[1], 16)) if constant else None, int(special))
        wrong = [what for what, bad in (('unknown', name == '?'), ('written', want[0] != got[0]),
                                        ('constant', want[1] != got[1]),
                                        ('special', want[2] is not None and want[2] != got[2])) if bad]
        if wrong and (opcode, wrong[0]) not in told:
            told.add((opcode, wrong[0]))
            print(opcode, name, wrong, texts[i], got)
    print('%d words of %d opcodes compared, %d disagreements' % (compared, opcodes, len(told)), listing.stderr[:200])
    return 1 if told or not compared else 0


if __name__ == '__main__':
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
