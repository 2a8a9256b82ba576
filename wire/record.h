/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies in a lane's ring between a client and the broker.
 *
 * A record owns all it needs. What follows the header: for a launch, `attribute_count` launch attributes, then
 * `parameter_bytes` of parameters at the kernel's own offsets; for WIRE_COPY_IN, `copy.bytes` of content. Addresses are
 * the client's, which are valid in the broker too for memory that was shared (message.h).
 */
#ifndef COISSUE_WIRE_RECORD_H
#define COISSUE_WIRE_RECORD_H

#include "driver/driver.h"
#include "wire/area.h"

enum wire_kind {
    /* Work. Counted. */
    WIRE_LAUNCH = 1, /* of a function that WIRE_FUNCTION gave a number */
    WIRE_COPY,       /* between two shared ranges, of the device or of the host */
    WIRE_COPY_IN,    /* what follows the header, to a shared range */
    WIRE_COPY_OUT,   /* from a shared range to staging: copy.to is slot number * WIRE_SLOT_BYTES + offset */
    WIRE_FILL,       /* memset, of one or two dimensions */
    /* Not work: the lane's next record is not taken before this holds. Not counted. */
    WIRE_WAIT_LANE, /* `completed` of another lane of the same client is at least `wait.count` */
    WIRE_WAIT_HOME, /* `home` of lane `wait.lane` is at least (modulo 2^32) `wait.count` */
    WIRE_KINDS
};

enum {
    WIRE_ATTRIBUTES_MAX = 8,
    WIRE_PARAMETERS_MAX = 32764,
    WIRE_COPY_IN_MAX = 16 * 1024, /* larger ones are copied at home */
    WIRE_RECORD_MAX = 64 + WIRE_ATTRIBUTES_MAX * sizeof(CUlaunchAttribute) + WIRE_PARAMETERS_MAX,
};

struct wire_record {
    uint8_t kind;     /* enum wire_kind */
    uint8_t glued;    /* as in engine/record.h */
    uint8_t extended; /* likewise */
    uint8_t attribute_count;
    uint32_t parameter_bytes;
    uint64_t submit_ns; /* CLOCK_MONOTONIC, which processes share */
    union {
        struct {
            uint32_t function;
            uint32_t grid[3], block[3];
            uint32_t shared_bytes;
        } launch;
        struct {
            uint64_t to, from, bytes;
        } copy;
        struct {
            uint64_t to, pitch, width, height; /* width in elements; height 1: one dimension */
            uint32_t value, element;           /* 1, 2 or 4 bytes */
        } fill;
        struct {
            uint32_t lane, spare;
            uint64_t count;
        } wait;
    };
};
_Static_assert(sizeof(struct wire_record) == 56 && RING_UNIT >= sizeof(struct wire_record), "one unit holds a header");

static inline const CUlaunchAttribute *wire_attributes(const struct wire_record *record)
{
    return (const CUlaunchAttribute *)(record + 1);
}

/* Parameters of a launch, or the content of a WIRE_COPY_IN. */
static inline void *wire_payload(const struct wire_record *record)
{
    return (char *)(record + 1) + record->attribute_count * sizeof(CUlaunchAttribute);
}

static inline uint32_t wire_record_bytes(uint32_t attributes, uint32_t payload)
{
    return (uint32_t)(sizeof(struct wire_record) + attributes * sizeof(CUlaunchAttribute)) + payload;
}

#endif
