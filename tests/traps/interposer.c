/* SPDX-License-Identifier: Apache-2.0
 *
 * Another library that interposes dlsym, as overlays and allocators do: it counts look-ups and hands them on to the
 * next dlsym. It can also make the driver look older: it does not find the name in TRAPS_HIDE. Built twice, with and
 * without the version that libc's dlsym has.
 */
#include "tests/traps/helpers.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef void *(*dlsym_fn)(void *handle, const char *name);

static _Atomic int count;
static _Atomic(dlsym_fn) next;

TRAPS_EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};

    const char *hidden = getenv("TRAPS_HIDE");

    atomic_fetch_add(&count, 1);
    if (hidden && strcmp(name, hidden) == 0)
        return NULL;
    for (size_t i = 0; !atomic_load(&next) && i < sizeof(versions) / sizeof(versions[0]); i++)
        atomic_store(&next, (dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", versions[i]));
    return atomic_load(&next)(handle, name);
}

int traps_interposed(void)
{
    return atomic_load(&count);
}
