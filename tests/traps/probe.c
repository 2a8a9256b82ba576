/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that programs of this folder are linked with: it asks dlsym for the next definition of its own symbol, and
 * the answer depends on who asks. There is no next one.
 */
#include "tests/traps/helpers.h"

#include <dlfcn.h>
#include <stddef.h>

int traps_probe_value(void)
{
    return 42;
}

void *traps_probe_next(void)
{
    void *volatile found = dlsym(RTLD_NEXT, "traps_probe_value");

    return found; /* volatile: a tail call would make the program the caller */
}
