/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that this process and the broker have at the same addresses, behind the calls that allocate and free.
 *
 * A region is one mapping that the broker knows: device memory of cuMemCreate, or a memfd that is registered with the
 * context. Large allocations are regions of their own, small ones are pieces of a region (a chunk). What the program
 * sees is the piece: its address and the size that was asked for.
 *
 * Whatever cannot be shared is asked of the driver plainly, and its answer is the program's; the allocation is then a
 * private thing (remote_private.h). So no failure of sharing is an error for the program.
 *
 * Locks: one for each device, held over driver calls and requests to the broker, never over a wait for the device.
 */
#ifndef COISSUE_SHIM_REMOTE_MEMORY_H
#define COISSUE_SHIM_REMOTE_MEMORY_H

#include "shim/remote.h"

struct shared_piece {
    uint64_t base, bytes; /* as the program knows it */
    uint64_t id;          /* never used again */
    CUcontext context;    /* in which it was allocated */
    CUdevice device;
    unsigned int flags; /* of cuMemHostAlloc */
    bool host;
};

/* Without looking further: there never was shared memory, or this is the child of a fork. */
static inline bool remote_memory_none(void)
{
    return atomic_load_explicit(&shim_words->shared, memory_order_acquire) == 0;
}

/*
 * Shared memory of the current context's device. Outputs only on success; then true. False: ask the driver. Must not be
 * called with a lock held; connects to the broker if nobody has.
 */
bool remote_memory_take(size_t bytes, CUdeviceptr *address);
bool remote_memory_take_host(size_t bytes, unsigned int flags, void **address);

/*
 * Frees what begins there, after waiting for the broker and for the context, as the driver waits. False: it is not
 * shared memory of that kind, and the driver must be asked. The caller has flushed.
 */
bool remote_memory_free(uint64_t address, bool host, CUresult *result);

/* The allocation that an address lies in. */
bool remote_memory_find(uint64_t address, struct shared_piece *piece);

/* Kernels of that device will reach memory of this one: what is shared now and later. */
void remote_memory_let(CUdevice owner, CUdevice reader);

#endif
