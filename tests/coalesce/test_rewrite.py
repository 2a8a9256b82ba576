#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites kernels and looks at the result with NVIDIA's disassembler: each instruction must be the old one, or what the
rules of coalesce/sass.h make of it, and nothing else.

usage: test_rewrite.py REWRITE_TOOL KERNELS.cu KERNELS.cubin

With nvcc, KERNELS.cu is compiled for sm_90a too. Without nvdisasm (PATH or NVDISASM) the test is skipped: 77.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

GRID = {0xc: 0x200, 0x10: 0x204, 0x14: 0x208}
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


def expected(text, fold, handle, address):
    """A pattern for what becomes of an instruction."""
    guard = PREFIX.match(text)[0].strip()
    body = text[len(guard):].strip()
    guard = re.escape(guard) + ' ' if guard else ''
    special = re.fullmatch(r'S2U?R (U?R\d+), SR_CTAID\.Z', body)
    if special:
        move = 'UMOV' if special[1][0] == 'U' else 'MOV'
        return guard + move + ' ' + special[1] + ', ' + (r'UR\d+' if fold else r'(0x0|RZ|URZ)')
    read = re.fullmatch(r'(U?LDC\S*) (U?R\d+), c\[0x0\]\[(?:(U?R\w+)\+?)?(0x[0-9a-f]+)?\]', body)
    if not read:
        return re.escape(text)
    name, target, index, offset = read[1], read[2], read[3], int(read[4] or '0', 16)
    if index in ('RZ', None):
        index = None
    if index and index.startswith('UR'):
        return 'BRA LABEL'  # the guard is on what the detour does
    if offset == 0x198:
        source = 'UR%d' % address
        if name == 'LDC.64':
            return guard + re.escape('IMAD.WIDE.U32 %s, RZ, RZ, %s' % (target, source))
        return guard + re.escape('UIMAD.WIDE.U32 %s, URZ, 0x0, %s' % (target, source))
    if offset < 0x210 and offset not in GRID:
        return re.escape(text)
    return guard + re.escape('%s %s, cx[UR%d][%s0x%x]' % (name, target, handle, index + '+' if index else '',
                                                          GRID.get(offset, offset)))


def check(name, old, new, fold, ragged):
    head = next((i for i in range(len(old), len(new)) if new[i].startswith('S2UR')), None)
    assert head == len(old), '%s: the prologue does not follow the code' % name
    tail = new[head:]
    handle = next(int(m[1]) for m in (re.match(r'USHF\.R\.U64 UR(\d+),', t) for t in tail) if m)
    address = next((int(m[1]) for m in (re.match(r'UIADD3 UR(\d+), UP0, UR\d+, 0x200, URZ', t) for t in tail) if m), 0)
    written = {int(m[1]) for t in old for m in [re.search(r'^(?:@\S+ )?\w+\S* (?:U?P\w+, )*UR(\d+)\b', t)] if m}
    assert not written & {handle, handle + 1}, '%s: UR%d is written' % (name, handle)
    assert new[0] == 'BRA LABEL', name
    for i, text in enumerate(old):
        want = expected(text, fold, handle, address)
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


def main(tool, source, made):
    disassembler = find_disassembler()
    if not disassembler:
        print('skipped: no nvdisasm')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        cubins = {made: ([], ['--fold', '--ragged', '--whole'])}
        if shutil.which('nvcc'):
            fresh = os.path.join(folder, 'fresh.cubin')
            subprocess.run(['nvcc', '-cubin', '-arch=sm_90a', source, '-o', fresh], check=True)
            cubins[fresh] = (['--fold'], ['--ragged'])
        kernels = words = detours = 0
        for cubin, forms in cubins.items():
            old = listing(disassembler, cubin)
            for name in old:
                for options in forms:
                    out = os.path.join(folder, 'out.cubin')
                    run = subprocess.run([tool, cubin, '--kernel', name, '-o', out] + options, capture_output=True,
                                         text=True)
                    assert run.returncode == 0, '%s %s: %s' % (name, options, run.stdout)
                    new = listing(disassembler, out)
                    assert '--whole' in options or list(new) == [name], list(new)
                    counts = check(name, old[name], new[name], '--fold' in options, '--ragged' in options)
                    kernels, words, detours = kernels + 1, words + counts[0], detours + counts[1]
    print('%d rewritten kernels, %d words, %d detours' % (kernels, words, detours))
    return 0 if detours else 1


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
