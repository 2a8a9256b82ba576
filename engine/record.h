/* SPDX-License-Identifier: Apache-2.0
 *
 * A held launch or op as it lies in its lane's ring.
 *
 * A record owns everything it needs: the caller's memory (arguments, attribute arrays, configs) may be gone when it is
 * issued. What follows the header: `attribute_count` launch attributes, then `parameter_bytes` of parameters at the
 * offsets that the kernel's layout names; or, for an op, the arguments of its driver call.
 */
#ifndef COISSUE_ENGINE_RECORD_H
#define COISSUE_ENGINE_RECORD_H

#include "driver/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct function;

enum record_kind {
    RECORD_LAUNCH, /* a kernel launch */
    RECORD_OP,     /* another call that is ordered in the lane */
    RECORD_GATE,   /* gate mode: nothing to issue; its consumption is the word that the caller waits for */
};

/* The largest parameter area since CUDA 12.1: 32,764 bytes (CUDA programming guide; checked on an H200, driver 580). */
enum { RECORD_PARAMETERS_MAX = 32764, RECORD_ATTRIBUTES_MAX = 8 };

struct record {
    uint8_t kind;
    uint8_t glued;    /* must directly follow its predecessor: programmatic stream serialization */
    uint8_t extended; /* came through cuLaunchKernelEx: goes back through it */
    uint8_t attribute_count;
    uint32_t parameter_bytes;
    uint64_t submit_ns;
    uint64_t corr; /* name of this launch in traces */
    union {
        struct {
            const struct function *function;
            uint32_t grid[3], block[3];
            uint32_t shared_bytes;
            uint32_t blocks_per_sm;
        } launch;
        struct {
            /* `away`: the stream to use instead of the one that was called for; NULL: none. */
            CUresult (*issue)(const struct cu_driver *driver, const void *arguments, CUstream away);
            const char *name;
        } op;
    };
};

/*
 * An attribute that may wait with its launch, and go to another process with it. The others record an event at the
 * launch (PROGRAMMATIC_EVENT, LAUNCH_COMPLETION_EVENT), write a handle back (DEVICE_UPDATABLE_KERNEL_NODE), need all
 * blocks resident (COOPERATIVE, if it is set), or are not known here.
 */
static inline bool attribute_can_wait(const CUlaunchAttribute *attribute)
{
    switch (attribute->id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        return !attribute->value.cooperative;
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return true;
    default:
        return false;
    }
}

static inline const CUlaunchAttribute *record_attributes(const struct record *record)
{
    return (const CUlaunchAttribute *)(record + 1);
}

static inline void *record_parameters(const struct record *record)
{
    return (char *)(record + 1) + record->attribute_count * sizeof(CUlaunchAttribute);
}

/*
 * The cluster size that came with the launch, or NULL. A pack may have clusters, if its members' grids are equal (no
 * block of a cluster may be missing) and clusters do not extend along the axis of the members.
 */
static inline const unsigned int *record_cluster(const struct record *record)
{
    for (uint32_t i = 0; i < record->attribute_count; i++)
        if (record_attributes(record)[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            return &record_attributes(record)[i].value.clusterDim.x; /* x, y, z */
    return NULL;
}

static inline uint32_t record_bytes(uint32_t attributes, uint32_t parameter_bytes)
{
    return (uint32_t)(sizeof(struct record) + attributes * sizeof(CUlaunchAttribute)) + parameter_bytes;
}

#endif
