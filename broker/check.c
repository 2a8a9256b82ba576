/* SPDX-License-Identifier: Apache-2.0
 *
 * Is a record of a client fit to be issued? What the driver would refuse anyway is left to it; checked is what could
 * make the broker read or write memory that is not the client's, or use what is not there.
 */
#include "broker/private.h"

static const char *launch_fault(const struct session *session, const struct wire_record *record, uint32_t bytes)
{
    const struct function *function;
    uint64_t threads = (uint64_t)record->launch.block[0] * record->launch.block[1] * record->launch.block[2];

    if (record->attribute_count > WIRE_ATTRIBUTES_MAX || record->parameter_bytes > WIRE_PARAMETERS_MAX ||
        bytes != wire_record_bytes(record->attribute_count, record->parameter_bytes))
        return "a launch whose size is not that of its parts";
    if (record->launch.function >= session->function_count)
        return "a launch of a function that does not exist";
    function = session->functions[record->launch.function];
    if (record->parameter_bytes != function->parameter_bytes)
        return "a launch with parameters of another size than its kernel's";
    for (uint32_t i = 0; i < record->attribute_count; i++)
        if (!attribute_can_wait(&wire_attributes(record)[i]))
            return "a launch with an attribute that cannot be sent";
    if (threads == 0 || threads > function->threads_max || record->launch.shared_bytes > function->shared_dynamic_max)
        return "a launch beyond its kernel's limits";
    return NULL;
}

static const char *copy_fault(const struct session *session, const struct wire_record *record, uint32_t bytes)
{
    bool in = record->kind == WIRE_COPY_IN, out = record->kind == WIRE_COPY_OUT;
    uint64_t slots = (uint64_t)WIRE_SLOTS * WIRE_SLOT_BYTES;

    if (record->attribute_count != 0 || record->copy.bytes == 0 ||
        record->parameter_bytes != (in ? record->copy.bytes : 0) ||
        bytes != wire_record_bytes(0, record->parameter_bytes) || (in && record->copy.bytes > WIRE_COPY_IN_MAX))
        return "a copy whose size is not that of its parts";
    if (out ? record->copy.to > slots || record->copy.bytes > slots - record->copy.to
            : !memory_holds(session, record->copy.to, record->copy.bytes))
        return "a copy to memory that is not shared";
    if (!in && !memory_holds(session, record->copy.from, record->copy.bytes))
        return "a copy from memory that is not shared";
    return NULL;
}

static const char *fill_fault(const struct session *session, const struct wire_record *record, uint32_t bytes)
{
    uint32_t element = record->fill.element;
    uint64_t row, all;

    if (bytes != wire_record_bytes(0, 0) || record->attribute_count != 0 || record->parameter_bytes != 0)
        return "a memset whose size is not that of its parts";
    if ((element != 1 && element != 2 && element != 4) || record->fill.to % element != 0 || record->fill.width == 0 ||
        record->fill.height == 0 || __builtin_mul_overflow(record->fill.width, element, &row) ||
        (record->fill.height > 1 && row > record->fill.pitch) ||
        __builtin_mul_overflow(record->fill.pitch, record->fill.height - 1, &all) ||
        __builtin_add_overflow(all, row, &all))
        return "a memset of impossible size";
    return memory_holds(session, record->fill.to, all) ? NULL : "a memset of memory that is not shared";
}

const char *record_fault(const struct session *session, const struct wire_record *record, uint32_t bytes)
{
    switch (record->kind) {
    case WIRE_LAUNCH:
        return launch_fault(session, record, bytes);
    case WIRE_COPY:
    case WIRE_COPY_IN:
    case WIRE_COPY_OUT:
        return copy_fault(session, record, bytes);
    case WIRE_FILL:
        return fill_fault(session, record, bytes);
    case WIRE_WAIT_LANE:
    case WIRE_WAIT_HOME:
        return record->wait.lane < WIRE_LANES && bytes == wire_record_bytes(0, 0) ? NULL : "a wait for no lane";
    default:
        return "a record of unknown kind";
    }
}
