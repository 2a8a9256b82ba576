# SPDX-License-Identifier: Apache-2.0
"""No function that docs/performance.md lists as hot calls what the document forbids there.

  hot_path.py            checks the tree
  hot_path.py --self     checks that this check finds what it should

A list item of the document between the two hot-path markers names a file and its hot functions:

  - `trace/ring.c`: `trace_put`, `ring_push`

Only direct calls are seen; a function that hot code calls belongs into the list too.
"""
import re
import sys

import tree

LIST = re.compile(r"<!-- hot functions -->(.*?)<!-- end of hot functions -->", re.S)
ITEM = re.compile(r"^- `([^`]+)`:((?:\s*`\w+`,?)+)\s*$", re.M)

FORBIDDEN = {
    "allocates": "malloc calloc realloc free strdup strndup asprintf vasprintf aligned_alloc posix_memalign mmap munmap",
    "formats": "printf fprintf snprintf vsnprintf sprintf dprintf",
    "does I/O": "write read open openat close fopen fclose fflush fwrite writev pwrite pread fsync",
    "asks the system": "syscall getenv secure_getenv getpid gettid sysconf usleep nanosleep sched_yield",
    "waits for a thread": "pthread_cond_wait pthread_cond_timedwait pthread_join sem_wait",
    "takes a mutex": "pthread_mutex_lock pthread_mutex_trylock pthread_rwlock_rdlock pthread_rwlock_wrlock mtx_lock",
    "loads code": "dlopen dlsym dlvsym",
    "logs": "log_error log_warn log_info log_debug log_write log_at",
}
WHY = {name: what for what, names in FORBIDDEN.items() for name in names.split()}
CALL = re.compile(r"(?<![\w.>])(" + "|".join(WHY) + r")\s*\(")


def body_of(code, name):
    """(start, text) of a function whose definition begins in column 0, as the style has it; None if there is none."""
    for match in re.finditer(rf"^[A-Za-z_][^\n;={{}}]*?\b{name}\s*\(", code, re.M):
        opening = re.compile(r"[^;{]*?\n?\{", re.S).match(code, match.end())
        if opening:
            end = code.find("\n}", opening.end() - 1)
            if end < 0:
                end = len(code)
            return opening.end(), code[opening.end():end]
    return None


def check(document, read):
    complaints, count = [], 0
    lists = LIST.findall(document)
    if not lists:
        return ["docs/performance.md has no list of hot functions"], 0
    for path, names in (item for text in lists for item in ITEM.findall(text)):
        try:
            text = read(path)
        except OSError:
            complaints.append(f"docs/performance.md lists {path}, which does not exist")
            continue
        code = tree.code_only(text)
        for name in re.findall(r"`(\w+)`", names):
            body = body_of(code, name)
            if body is None:
                complaints.append(f"docs/performance.md lists {name}, which {path} does not define")
                continue
            count += 1
            for match in CALL.finditer(body[1]):
                line = tree.line_of(code, body[0] + match.start())
                complaints.append(f"{path}:{line}: {name} is hot and {WHY[match.group(1)]}: {match.group(1)}")
    for line in "\n".join(lists).splitlines():
        if line.startswith("-") and not ITEM.match(line):
            complaints.append(f"docs/performance.md: not of the form - `file`: `function`, ...: {line}")
    return complaints, count


SAMPLE = """
#include <stdlib.h>
static int cold(void)
{
    return malloc(1) != 0; /* fine here */
}

static inline void warm(int a,
                        int b)
{
    /* malloc(1) */
    const char *text = "free(";
    p->free(a);
}

int hot(void)
{
    if (1) {
        pthread_mutex_lock(&m);
    }
    return 0;
}
"""


def check_itself():
    def document(line):
        return f"<!-- hot functions -->\n{line}\n<!-- end of hot functions -->\n"

    def read(path):
        if path != "a.c":
            raise FileNotFoundError(path)
        return SAMPLE

    samples = [
        ("- `a.c`: `hot`", "a.c:19: hot is hot and takes a mutex"),
        ("- `a.c`: `cold`, `warm`", "cold is hot and allocates"),
        ("- `a.c`: `warm`", None),
        ("- `a.c`: `gone`", "which a.c does not define"),
        ("- `b.c`: `hot`", "which does not exist"),
        ("- a.c: hot", "not of the form"),
    ]
    complaints = []
    for line, said in samples:
        found, _ = check(document(line), read)
        if (said is None and found) or (said is not None and not any(said in f for f in found)):
            complaints.append(f"{line}: expected {said!r}, found {found}")
    if not check("nothing", read)[0]:
        complaints.append("a document without a list passes")
    return tree.finish(complaints, f"{len(samples) + 1} samples are judged as they should be")


def main():
    if sys.argv[1:] == ["--self"]:
        return check_itself()
    complaints, count = check(tree.read("docs/performance.md"), tree.read)
    return tree.finish(complaints, f"{count} hot functions call nothing forbidden")


sys.exit(main())
