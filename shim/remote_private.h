/* SPDX-License-Identifier: Apache-2.0
 *
 * Private things: what kernels of this process may reach and the broker cannot. Plain allocations, managed and
 * registered memory, pools, mappings of the program's own, imports, textures. While there are any, launches go home.
 *
 * They are counted from the start, whether there is a broker or not, since one may come later. The table says which are
 * alive, so that a free that fails, or comes twice, does not unbalance the count. In doubt too much is counted: then a
 * launch goes home that need not have.
 *
 * An object that goes is taken out before the driver is called, and put back if the driver refuses: once the driver has
 * it, another thread may get the same address and note it.
 */
#ifndef COISSUE_SHIM_REMOTE_PRIVATE_H
#define COISSUE_SHIM_REMOTE_PRIVATE_H

#include "driver/driver.h"

#include <stdbool.h>
#include <stdint.h>

enum private_kind {
    PRIVATE_DEVICE = 1, /* what cuMemFree and cuMemFreeAsync free */
    PRIVATE_HOST,       /* what cuMemFreeHost frees */
    PRIVATE_REGISTERED,
    PRIVATE_MAPPED, /* belongs to no context */
    PRIVATE_IPC,
    PRIVATE_EXTERNAL,
    PRIVATE_GRAPHICS,
    PRIVATE_TEXTURE,
    PRIVATE_SURFACE,
};

struct private_thing {
    uint64_t key; /* an address or a handle; not 0 */
    uint64_t bytes;
    CUcontext context; /* it ends with that */
    uint32_t kind;     /* 0: free slot */
    uint32_t count;    /* how often it was opened */
};

uint32_t private_things(void); /* any thread, no lock */

/* Allocations that come again at an address are one; what can be opened several times is counted as often. */
void private_add(enum private_kind kind, uint64_t key, uint64_t bytes);
void private_add_for_ever(void);

/* False, and a thing that private_put_back() leaves alone: it is not there. */
bool private_take(enum private_kind kind, uint64_t key, struct private_thing *taken);
void private_put_back(const struct private_thing *taken);

/* All mappings in the range; *taken is one as large as they. */
bool private_take_mappings(uint64_t base, uint64_t bytes, struct private_thing *taken);

void private_context_ends(CUcontext context);

#endif
