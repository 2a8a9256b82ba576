/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that has functions with names of the driver and is not the driver. Opened by programs of this folder.
 */
#include "tests/traps/helpers.h"

int cuInit(unsigned int flags)
{
    return 4700 + (int)flags;
}

int cuEventRecord(void *event, void *stream)
{
    (void)event;
    (void)stream;
    return 4711;
}
