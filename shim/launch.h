/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch on its way, between launch.c, which takes it from the program, and remote_launch.c, which gives it to the
 * broker.
 */
#ifndef COISSUE_SHIM_LAUNCH_H
#define COISSUE_SHIM_LAUNCH_H

#include "engine/function.h"
#include "shim/shim.h"

/* A launch as the program made it, whatever entry point it used. */
struct launch {
    CUfunction function;
    struct stream_key stream;
    const uint32_t *grid, *block; /* three numbers each */
    uint32_t shared_bytes;
    void **parameters, **extra;
    const CUlaunchAttribute *attributes;
    uint32_t attribute_count;
    bool extended;
    enum cu_entry entry;
    uint64_t begin_ns;
    const struct lane *lane; /* where it was held, or for which it was given away */
};

/* Where the parameters are, in one of the two forms. */
struct arguments {
    const void *buffer; /* of the `extra` form; NULL: gather from kernelParams */
    uint32_t bytes;
    bool glued;
};

/* Copies the parameters to their offsets. */
void launch_copy_parameters(char *to, const struct launch *launch, const struct function *function,
                            const struct arguments *arguments);

#endif
