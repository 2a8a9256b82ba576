/* SPDX-License-Identifier: Apache-2.0
 *
 * The table that COISSUE_SUMMARY prints at exit. Numbers come first in each line, so that texts may have any length.
 */
#include "trace/private.h"

#include <unistd.h>

enum { NUMBER_WIDTH = 16, SHARE_WIDTH = 9 };

/* 1234567 as "1,234,567", to the left of column NUMBER_WIDTH. */
static void add_number(struct text *out, uint64_t value)
{
    char digits[32], grouped[32];
    struct text text;
    size_t length, at = 0;

    text_init(&text, digits, sizeof(digits));
    text_unsigned(&text, value);
    length = text_end(&text);
    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            grouped[at++] = ',';
        grouped[at++] = digits[i];
    }
    text_pad(out, out->length, at < NUMBER_WIDTH ? NUMBER_WIDTH - at : 0);
    text_bytes(out, grouped, at);
}

/* The share of `whole` in tenths of a percent, rounded. */
static void add_share(struct text *out, uint64_t value, uint64_t whole)
{
    char share[32];
    struct text text;
    size_t length;

    text_init(&text, share, sizeof(share));
    text_decimal(&text, whole ? (uint64_t)(((unsigned __int128)value * 1000 + whole / 2) / whole) : 0, 1);
    text_string(&text, " %");
    length = text_end(&text);
    text_pad(out, out->length, length < SHARE_WIDTH ? SHARE_WIDTH - length : 0);
    text_string(out, share);
}

static void add_line(struct text *out, uint64_t value, uint64_t whole, unsigned int depth, const char *label)
{
    add_number(out, value);
    add_share(out, value, whole);
    text_pad(out, out->length, 2 + 2 * (size_t)depth);
    text_clean(out, label, 120);
    text_char(out, '\n');
}

static void add_reasons(struct text *out, const struct trace *trace, const struct trace_totals *totals, uint8_t went,
                        unsigned int depth)
{
    const struct trace_options *options = &trace->options;

    for (unsigned int i = 0; i < options->reason_count; i++)
        if (trace->went[i] == went && totals->by_reason[i])
            add_line(out, totals->by_reason[i], totals->seen, depth,
                     options->reason_text ? options->reason_text(i) : "(no text)");
}

static void add_launches(struct text *out, const struct trace *trace, const struct trace_totals *totals)
{
    const struct {
        uint8_t went;
        uint64_t launches;
        const char *label;
    } kinds[] = {
        {WENT_ALONE, totals->alone, "alone, because"},
        {WENT_COSCHEDULE, totals->coscheduled, "co-scheduled beside other work, because"},
        {WENT_COALESCE, totals->coalesced, "coalesced with launches of other tenants, because"},
    };
    uint64_t home = totals->seen - totals->held;

    add_line(out, totals->seen, totals->seen, 0, "kernel launches");
    add_line(out, totals->held, totals->seen, 1, "held in the queue, and then issued");
    for (size_t i = 0; i < array_length(kinds); i++) {
        if (!kinds[i].launches)
            continue;
        add_line(out, kinds[i].launches, totals->seen, 2, kinds[i].label);
        add_reasons(out, trace, totals, kinds[i].went, 3);
    }
    if (totals->held > totals->issued)
        add_line(out, totals->held - totals->issued, totals->seen, 2, "still held");
    add_line(out, home, totals->seen, 1, home ? "not held, because" : "not held");
    add_reasons(out, trace, totals, WENT_HOME, 2);
}

static void add_fact(struct text *out, uint64_t value, const char *label)
{
    add_number(out, value);
    text_pad(out, out->length, SHARE_WIDTH + 2);
    text_string(out, label);
    text_char(out, '\n');
}

/* A number of tenths, and what it is. */
static void add_tenths(struct text *out, uint64_t tenths, const char *label)
{
    char number[32];
    struct text text;
    size_t length;

    text_init(&text, number, sizeof(number));
    text_decimal(&text, tenths, 1);
    length = text_end(&text);
    text_pad(out, out->length, length < NUMBER_WIDTH ? NUMBER_WIDTH - length : 0);
    text_string(out, number);
    text_pad(out, out->length, SHARE_WIDTH + 2);
    text_string(out, label);
    text_char(out, '\n');
}

static void add_packs(struct text *out, const struct trace_totals *totals)
{
    if (!totals->packs)
        return;
    add_fact(out, totals->packs, "packs: launches of several tenants that were issued as one");
    add_tenths(out, (totals->packed * 10 + totals->packs / 2) / totals->packs, "launches in a pack, on average");
    add_fact(out, totals->widest, "launches in the largest pack");
}

/* A kernel is rewritten for packs of few and of many launches, and again if their grids differ. */
static void add_rewrites(struct text *out, const struct trace *trace, const struct trace_totals *totals)
{
    const struct trace_options *options = &trace->options;

    if (!totals->rewritten && !totals->refused)
        return;
    add_fact(out, totals->rewritten, "forms of kernels that were rewritten for packs");
    if (!totals->refused)
        return;
    add_fact(out, totals->refused, "forms of kernels that were not, because");
    for (unsigned int i = 1; i < options->refusal_count; i++) {
        if (!totals->by_refusal[i])
            continue;
        add_number(out, totals->by_refusal[i]);
        text_pad(out, out->length, SHARE_WIDTH + 4);
        text_clean(out, options->refusal_text ? options->refusal_text(i) : "(no text)", 120);
        text_char(out, '\n');
    }
}

static void add_time(struct text *out, uint64_t ns, const char *label)
{
    char time[32];
    struct text text;
    size_t length;

    text_init(&text, time, sizeof(time));
    text_decimal(&text, ns, 3);
    length = text_end(&text);
    text_pad(out, out->length, length < NUMBER_WIDTH ? NUMBER_WIDTH - length : 0);
    text_string(out, time);
    text_string(out, " us");
    text_pad(out, out->length, SHARE_WIDTH + 2 - 3);
    text_string(out, label);
    text_char(out, '\n');
}

size_t trace_summary(const struct trace *trace, char *buffer, size_t size)
{
    struct trace_totals totals;
    struct text out;

    trace_totals(trace, &totals);
    text_init(&out, buffer, size);
    text_string(&out, "coissue ");
    text_string(&out, trace->version);
    text_string(&out, *trace->version ? " in process " : "in process ");
    text_unsigned(&out, (uint64_t)getpid());
    text_char(&out, '\n');
    add_launches(&out, trace, &totals);
    add_time(&out, totals.issued ? totals.hold_ns_total / totals.issued : 0, "mean time held");
    add_time(&out, totals.hold_ns_max, "longest time held");
    add_fact(&out, totals.ops, "held operations other than launches");
    add_fact(&out, totals.flushes, "calls that flushed held launches");
    add_packs(&out, &totals);
    add_rewrites(&out, trace, &totals);
    if (trace->writer || totals.lost)
        add_fact(&out, totals.lost, "trace events lost");
    return text_end(&out);
}
