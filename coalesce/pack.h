/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameter area of a pack: what one launch of a rewritten kernel is given. Filled in the caller's memory, member
 * by member; nothing is allocated, and a member costs two copies of its own size.
 *
 * One thread per area. Sizes in bytes; grids in blocks.
 */
#ifndef COISSUE_COALESCE_PACK_H
#define COISSUE_COALESCE_PACK_H

#include "coalesce/coalesce.h"

struct coalesce_pack {
    const struct coalesce_layout *layout;
    unsigned char *area; /* at least layout->bytes; the driver reads as much as the kernel declares */
    uint32_t count;
    uint32_t grid[3]; /* to launch with, once a member was added */
};

void coalesce_pack_begin(struct coalesce_pack *pack, const struct coalesce_layout *layout, void *area);

/*
 * Adds a member: its grid and the bytes of its parameters (layout->parameter_bytes of them). -ENOSPC: the area, or the
 * largest grid that a device takes, is full. -EINVAL: its grid does not go with the form or with the members before.
 */
int coalesce_pack_add(struct coalesce_pack *pack, const uint32_t grid[3], const void *parameters);

/* Bytes of the area that are in use. */
uint32_t coalesce_pack_bytes(const struct coalesce_pack *pack);

#endif
