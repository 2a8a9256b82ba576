/* SPDX-License-Identifier: Apache-2.0
 *
 * What coissue knows of a kernel function: the layout of its parameters, so that they can be copied; the limits against
 * which the driver checks a launch, so that a launch that would be refused is not held; how many blocks fit on an SM.
 *
 * Functions are learned at the first launch of a handle, on the calling thread, and kept for the life of the process: a
 * record in a ring may point to one. Handles can be recycled after an unload, and attributes can change; each such
 * event raises engine->function_epoch, and a function of an older epoch is learned again before it is used.
 */
#ifndef COISSUE_ENGINE_FUNCTION_H
#define COISSUE_ENGINE_FUNCTION_H

#include "engine/engine.h"

enum { FUNCTION_SHAPES = 8, FUNCTION_NAME_MAX = 1023 };

struct function_shape {
    _Atomic uint64_t key; /* threads of a block << 32 | dynamic shared bytes; 0: empty */
    _Atomic uint32_t blocks_per_sm;
};

struct function {
    CUfunction handle; /* as the program gave it: a CUfunction, or a CUkernel in its place */
    CUfunction query;  /* the CUfunction to ask the driver about; equals handle unless that is a CUkernel */
    const char *name;  /* lives as long as the process */
    _Atomic uint32_t epoch;

    uint32_t parameter_count;
    uint32_t parameter_bytes; /* end of the last one, no tail padding: the driver refuses a larger buffer (error 701) */
    const uint32_t *offsets, *sizes;

    uint32_t threads_max;        /* of a block; takes the registers into account */
    uint32_t shared_dynamic_max; /* as set by the program */
    bool cluster_required;       /* must be launched with a cluster size */

    struct code *code;         /* where it comes from; NULL: not known, so it is never coalesced */
    struct twin *twins[4][2];  /* by form and class, see twin.h. The device's thread; [..][TWIN_ONE]: see twin_of_one */
    _Atomic uint64_t launches; /* counted when verifying */
    _Atomic uint64_t replaced; /* by a twin */

    _Atomic uint64_t remote; /* the shim's: what another process calls it; 0: not asked yet */
    struct function_shape shapes[FUNCTION_SHAPES];
    _Atomic uint32_t shape_next;
};

/* The function of a handle, or NULL if its layout cannot be known: then its launches are not held. Does not wait. */
const struct function *function_get(struct engine *engine, CUfunction handle);

/* Blocks of that shape that fit on one SM; at least 1. */
uint32_t function_blocks_per_sm(struct engine *engine, const struct function *function, uint32_t threads,
                                uint32_t shared_bytes);

/* Handles may have been recycled, or attributes changed. */
void function_forget_all(struct engine *engine);

#endif
