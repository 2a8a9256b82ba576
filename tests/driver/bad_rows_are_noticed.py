# SPDX-License-Identifier: Apache-2.0
"""check-entries.py must find each kind of mistake in a table. One small table per mistake."""
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.join(TOP, "scripts", "check-entries.py")

GOOD = [
    "CU_ENTRY(cuInit, ANSWER, HAND, NONE, P1(unsigned int, Flags))",
    "CU_ENTRY(cuStreamQuery, LANE, AUTO, STREAM(hStream), P1(CUstream, hStream))",
    "CU_ENTRY(cuStreamQuery_ptsz, LANE, AUTO, PTSTREAM(hStream), P1(CUstream, hStream))",
    "CU_ENTRY(cuEventQuery, EVENT, AUTO, EVENT(hEvent), P1(CUevent, hEvent))",
    "CU_ENTRY(cuCtxSynchronize, CONTEXT, HAND, NONE, P0())",
]

# (what is replaced, by what, what must be said)
ROW_MISTAKES = [
    ("cuInit, ANSWER", "cuInit, ANSWERS", "unknown class ANSWERS"),
    ("ANSWER, HAND", "ANSWER, HANDS", "neither AUTO nor HAND"),
    ("STREAM(hStream), P1(CUstream, hStream))", "STREAM(stream), P1(CUstream, hStream))", "no parameter"),
    ("EVENT(hEvent), P1", "FENCE(hEvent), P1", "unknown key"),
    ("EVENT(hEvent), P1(CUevent, hEvent)", "EVENT(hEvent), P1(CUstream, hEvent)", "not a CUevent"),
    ("cuEventQuery, EVENT, AUTO, EVENT(hEvent)", "cuEventQuery, EVENT, AUTO, NONE", "needs an EVENT key"),
    ("cuStreamQuery, LANE, AUTO, STREAM(hStream)", "cuStreamQuery, LANE, AUTO, NONE", "needs a STREAM or PTSTREAM key"),
    ("cuStreamQuery, LANE", "cuStreamQuery, ANSWER", "not in the list of queries"),
    ("PTSTREAM(hStream)", "STREAM(hStream)", "needs PTSTREAM"),
    ("cuStreamQuery_ptsz, LANE", "cuStreamQuery_ptsz, CONTEXT", "differ from those of cuStreamQuery"),
    ("P1(unsigned int, Flags)", "P2(unsigned int, Flags)", "P2 has 2 fields, not 4"),
    ("NONE, P0())", "NONE)", "not of the form"),
    ("cuCtxSynchronize", "cuInit", "stands in line 1 already"),
]

HEADER = """
typedef struct s *CUstream; typedef struct e *CUevent; typedef int CUresult;
#define CUDA_VERSION 13000
CUresult cuInit(unsigned int Flags);
CUresult cuStreamQuery(CUstream hStream);
CUresult cuStreamQuery_ptsz(CUstream hStream);
CUresult cuEventQuery(CUevent hEvent);
CUresult cuCtxSynchronize(void);
"""

HEADER_MISTAKES = [
    ("cuInit(unsigned int Flags)", "cuInit(unsigned long Flags)", "cuInit: the header has (unsigned long)"),
    ("CUresult cuCtxSynchronize(void);", "", "cuCtxSynchronize: in the table, not in"),
    ("CUresult cuInit", "CUresult cuNew(int x); CUresult cuInit", "cuNew: in "),
]


def run(*arguments):
    result = subprocess.run([sys.executable, CHECK, *arguments], capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "table.def")
        header = os.path.join(folder, "cuda.h")

        def write(path, text):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

        def expect(status, said, what, *arguments):
            got, text = run(*arguments, table)
            if got != status or said not in text:
                failures.append(f"{what}: status {got}, expected {status}; '{said}' expected in: {text.strip()}")

        good = "\n".join(GOOD) + "\n"
        write(os.path.join(folder, "cudaProfiler.h"), "")
        write(table, good)
        write(header, HEADER)
        expect(0, "5 rows are well formed", "the good table", "--rows-only")
        expect(0, "match cuda.h", "the good table and header", "--include", folder)
        for old, new, said in ROW_MISTAKES:
            assert old in good, old
            write(table, good.replace(old, new, 1))
            expect(1, said, f"{old} -> {new}", "--rows-only")
        write(table, good)
        for old, new, said in HEADER_MISTAKES:
            assert old in HEADER, old
            write(header, HEADER.replace(old, new, 1))
            expect(1, said, f"header: {old} -> {new}", "--include", folder)
        # A newer header with one more function is a note, not a mistake of the table.
        write(header, HEADER.replace("13000", "13010") + "CUresult cuNew(int x);\n")
        expect(0, "note:", "a newer header", "--include", folder)

    for failure in failures:
        print(failure)
    return 1 if failures else 0


sys.exit(main())
