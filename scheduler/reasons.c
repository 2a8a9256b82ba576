/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/scheduler.h"

static const struct {
    const char *name;
    const char *text;
    enum sched_kind kind;
} reasons[SCHED_REASON_COUNT] = {
#define REASON(name, kind, text) [SCHED_REASON_##name] = {#name, text, SCHED_##kind},
#include "scheduler/reasons.def"
};

/* Reasons travel through trace rings and files, so a number that no row has must not end in a wild read. */
static bool known(enum sched_reason reason)
{
    return (unsigned int)reason < SCHED_REASON_COUNT;
}

const char *sched_reason_name(enum sched_reason reason)
{
    return known(reason) ? reasons[reason].name : "?";
}

const char *sched_reason_text(enum sched_reason reason)
{
    return known(reason) ? reasons[reason].text : "?";
}

enum sched_kind sched_reason_kind(enum sched_reason reason)
{
    return known(reason) ? reasons[reason].kind : SCHED_HOME;
}

const char *sched_kind_name(enum sched_kind kind)
{
    switch (kind) {
    case SCHED_ALONE:
        return "alone";
    case SCHED_COSCHEDULE:
        return "coschedule";
    case SCHED_COALESCE:
        return "coalesce";
    case SCHED_HOLD:
        return "hold";
    case SCHED_HOME:
        return "home";
    }
    return "?";
}
