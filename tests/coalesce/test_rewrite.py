#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites kernels and looks at the result with NVIDIA's disassembler: each instruction must be the old one, or what the
rules of coalesce/sass.h make of it, and nothing else.

usage: test_rewrite.py REWRITE_TOOL KERNELS.cu KERNELS.cubin

With nvcc, KERNELS.cu is compiled for other architectures too. Without nvdisasm (PATH or NVDISASM) the test is skipped: 77.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

GRID = {0xc: 0, 0x10: 4, 0x14: 8}  # in the header of a member
# Where parameters begin, the word of bank 0 that says an address, how the handle is shifted.
NEW = {'base': 0x210, 'address': 0x198, 'shift': 6}
OLD = {'base': 0x160, 'address': 0x40, 'shift': 4}
PREFIX = re.compile(r'^(@!?U?P\w+\s+)?')


def listing(disassembler, path):
    """kernel -> list of instructions, without labels of branches."""
    out = subprocess.run([disassembler, '-c', path], capture_output=True, text=True)
    if out.returncode:
        sys.exit('nvdisasm: ' + out.stderr)
    kernels, words = {}, None
    for line in out.stdout.splitlines():
        if line.startswith('.text.'):
            words = kernels.setdefault(line[6:].rstrip(':'), [])
        match = re.match(r'\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;', line)
        if match and words is not None:
            text = re.sub(r'\(\*.*?\*\)', '', re.sub(r'`\(\.?[\w$.]+\)', 'LABEL', match[1]))
            words.append(re.sub(r'\s+', ' ', text).strip())
    return kernels


def expected(text, fold, handle, address, target):
    """A pattern for what becomes of an instruction."""
    guard = PREFIX.match(text)[0].strip()
    body = text[len(guard):].strip()
    guard = re.escape(guard) + ' ' if guard else ''
    special = re.fullmatch(r'S2U?R (U?R\d+), SR_CTAID\.Z', body)
    if special:
        move = 'UMOV' if special[1][0] == 'U' else 'MOV'
        return guard + move + ' ' + special[1] + ', ' + (r'UR\d+' if fold else r'(0x0|RZ|URZ)')
    operand = re.fullmatch(r'(\S+ .*)c\[0x0\]\[(0x[0-9a-f]+)\](.*)', body)
    if operand and 'LDC' not in operand[1]:
        return guard + expected_operand(operand, int(operand[2], 16), handle, target)
    read = re.fullmatch(r'(U?LDC\S*) (U?R\d+), c\[0x0\]\[(?:(U?R\w+)\+?)?(0x[0-9a-f]+)?\]', body)
    if not read:
        return re.escape(text)
    name, result, index, offset = read[1], read[2], read[3], int(read[4] or '0', 16)
    if index in ('RZ', None):
        index = None
    if index and index.startswith('UR'):
        return 'BRA LABEL'  # the guard is on what the detour does
    if offset == target['address']:
        source = 'UR%d' % address
        if name == 'LDC.64':
            return guard + re.escape('IMAD.WIDE.U32 %s, RZ, RZ, %s' % (result, source))
        return guard + re.escape('UIMAD.WIDE.U32 %s, URZ, 0x0, %s' % (result, source))
    offset = moved(offset, target)
    if offset is None:
        return re.escape(text)
    return guard + re.escape('%s %s, cx[UR%d][%s0x%x]' % (name, result, handle, index + '+' if index else '', offset))


def moved(offset, target):
    """Where a read of bank 0 goes, None: it stays."""
    if offset in GRID:
        return target['base'] - 16 + GRID[offset]
    return offset if offset >= target['base'] else None


def expected_operand(operand, offset, handle, target):
    """Arithmetic with an operand from a constant bank."""
    offset = moved(offset, target)
    if offset is None:
        return re.escape(operand[0])
    name = operand[1].replace('IMAD.MOV.U32 ', 'IMAD.U32 ')  # what a disassembler calls it with cx
    return re.escape('%scx[UR%d][0x%x]%s' % (name, handle, offset, operand[3]))


def check(name, old, new, fold, ragged, target):
    head = next((i for i in range(len(old), len(new)) if new[i].startswith('S2UR')), None)
    assert head == len(old), '%s: the prologue does not follow the code' % name
    tail = new[head:]
    handle = next(int(m[1]) for m in (re.match(r'USHF\.R\.U64 UR(\d+), UR\d+, 0x%x,' % target['shift'], t) for t in tail)
                  if m)
    pattern = r'UIADD3 UR(\d+), UP0, UR\d+, 0x200, URZ' if target is NEW else r'UMOV UR(\d+), UR6'
    address = next((int(m[1]) for m in (re.fullmatch(pattern, t) for t in tail) if m), 0)
    assert any(t == 'ULDC.64 UR6, c[0x0][0x%x]' % target['address'] for t in tail), name
    written = {int(m[1]) for t in old for m in [re.search(r'^(?:@\S+ )?\w+\S* (?:U?P\w+, )*UR(\d+)\b', t)] if m}
    assert not written & {handle, handle + 1}, '%s: UR%d is written' % (name, handle)
    assert new[0] == 'BRA LABEL', name
    for i, text in enumerate(old):
        want = expected(text, fold, handle, address, target)
        if i == 0:
            assert any(re.fullmatch(want, t) for t in tail), '%s: %s is lost' % (name, text)
        else:
            assert re.fullmatch(want, new[i]), '%s, word %d: %s became %s' % (name, i, text, new[i])
    detours = [t for t in old if re.search(r'ULDC\S* UR\d+, c\[0x0\]\[UR', t)]
    for text in detours:
        read = re.search(r'(ULDC\S*) (UR\d+), c\[0x0\]\[(UR\d+)\+(0x[0-9a-f]+)\]', text)
        load = '%s %s, c[0x0][%s+0x%x]' % (read[1], read[2], read[2], int(read[4], 16) + 0x200)
        found = [i for i, t in enumerate(tail) if t.endswith(load)]
        assert any(re.search(r'UIADD3 %s, %s, UR\d+, URZ' % (read[2], read[3]), tail[i - 1]) and
                   tail[i + 1] == 'BRA LABEL' for i in found), '%s: no detour for %s' % (name, text)
    assert ('EXIT' in ' '.join(tail)) == ragged, name
    return len(old), len(detours)


def find_disassembler():
    """That of the environment, of the system, or of the Python environment that scripts/clients.sh makes."""
    found = os.environ.get('NVDISASM') or shutil.which('nvdisasm')
    clients = os.environ.get('SIMCUDA_PYTHON')
    if found or not clients:
        return found
    pattern = os.path.join(os.path.dirname(clients), '..', 'lib', 'python3*', 'site-packages', 'nvidia', '*', 'bin', 'nvdisasm')
    return next(iter(glob.glob(pattern)), None)


def old_architectures():
    known = subprocess.run(['nvcc', '--list-gpu-code'], capture_output=True, text=True).stdout.split()
    return [sm for sm in ('sm_80', 'sm_86', 'sm_89') if sm in known]


def main(tool, source, made):
    disassembler = find_disassembler()
    if not disassembler:
        print('skipped: no nvdisasm')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        cubins = {made: (NEW, [], ['--fold', '--ragged', '--whole'])}
        if shutil.which('nvcc'):
            fresh = os.path.join(folder, 'fresh.cubin')
            subprocess.run(['nvcc', '-cubin', '-arch=sm_90a', source, '-o', fresh], check=True)
            cubins[fresh] = (NEW, ['--fold'], ['--ragged'])
            for sm in old_architectures():
                fresh = os.path.join(folder, sm + '.cubin')
                subprocess.run(['nvcc', '-cubin', '-arch=' + sm, source, '-o', fresh], check=True)
                cubins[fresh] = (OLD, ['--unproven'], ['--unproven', '--fold', '--ragged'], ['--unproven', '--whole'])
        kernels = words = detours = 0
        for cubin, (target, *forms) in cubins.items():
            old = listing(disassembler, cubin)
            for name in old:
                for options in forms:
                    out = os.path.join(folder, 'out.cubin')
                    run = subprocess.run([tool, cubin, '--kernel', name, '-o', out] + options, capture_output=True,
                                         text=True)
                    assert run.returncode == 0, '%s %s: %s' % (name, options, run.stdout)
                    new = listing(disassembler, out)
                    assert '--whole' in options or list(new) == [name], list(new)
                    counts = check(name, old[name], new[name], '--fold' in options, '--ragged' in options, target)
                    kernels, words, detours = kernels + 1, words + counts[0], detours + counts[1]
    print('%d rewritten kernels, %d words, %d detours' % (kernels, words, detours))
    return 0 if detours else 1


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
