/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce/pack.h"

#include <errno.h>
#include <string.h>

/*
 * The largest grid on the axes y and z since compute capability 2.0 (CUDA programming guide, technical specifications).
 */
enum { GRID_Z_MAX = 65535 };

void coalesce_pack_begin(struct coalesce_pack *pack, const struct coalesce_layout *layout, void *area)
{
    *pack = (struct coalesce_pack){.layout = layout, .area = area};
}

static bool goes_with(const struct coalesce_pack *pack, const uint32_t grid[3])
{
    const struct coalesce_layout *layout = pack->layout;
    bool fold = (layout->form & COALESCE_FOLD) != 0;

    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || (!fold && grid[2] != 1) || (fold && grid[2] < 2))
        return false;
    if (pack->count == 0)
        return true;
    if (fold && grid[2] != pack->grid[2] / pack->count)
        return false;
    return (layout->form & COALESCE_RAGGED) || (grid[0] == pack->grid[0] && grid[1] == pack->grid[1]);
}

/* What the prologue divides by: floor(z * magic >> 32) == z / gz for all z, gz below 2^16, because the error of magic
 * is below 1 and z * gz is below 2^32. */
static void put_divisor(const struct coalesce_pack *pack, uint32_t gz)
{
    uint32_t words[2] = {(uint32_t)(((UINT64_C(1) << 32) + gz - 1) / gz), -gz};

    memcpy(pack->area, words, sizeof(words));
}

int coalesce_pack_add(struct coalesce_pack *pack, const uint32_t grid[3], const void *parameters)
{
    const struct coalesce_layout *layout = pack->layout;
    uint32_t header[COALESCE_MEMBER_HEADER / sizeof(uint32_t)] = {grid[0], grid[1], grid[2], 0};
    unsigned char *member = pack->area + layout->base + (size_t)pack->count * layout->stride;

    if (!goes_with(pack, grid))
        return -EINVAL;
    if (pack->count == layout->capacity || (uint64_t)grid[2] * (pack->count + 1) > GRID_Z_MAX)
        return -ENOSPC;
    memcpy(member - sizeof(header), header, sizeof(header));
    memcpy(member, parameters, layout->parameter_bytes);
    if (pack->count == 0 && (layout->form & COALESCE_FOLD))
        put_divisor(pack, grid[2]);
    pack->count++;
    pack->grid[0] = grid[0] > pack->grid[0] ? grid[0] : pack->grid[0];
    pack->grid[1] = grid[1] > pack->grid[1] ? grid[1] : pack->grid[1];
    pack->grid[2] = grid[2] * pack->count;
    return 0;
}

uint32_t coalesce_pack_bytes(const struct coalesce_pack *pack)
{
    const struct coalesce_layout *layout = pack->layout;

    if (pack->count == 0)
        return 0;
    return layout->base + (pack->count - 1) * layout->stride + layout->parameter_bytes;
}
