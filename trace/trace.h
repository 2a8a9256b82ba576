/* SPDX-License-Identifier: Apache-2.0
 *
 * trace/: what happened, for ui.perfetto.dev and for the summary at exit.
 *
 * Threads put fixed-size events into bounded rings, one ring per thread, single producer, no lock, no allocation, no
 * system call; a full ring drops the event and counts it. One writer thread empties the rings every flush period, turns
 * events into Chrome/Perfetto JSON (Kineto's conventions) and writes them. The file is valid JSON after each flush: the
 * closing brackets are written with every flush and overwritten by the next, so a process that is killed leaves a trace
 * that loads, up to its last flush. Only a SIGKILL in the microseconds of the write itself can leave a file that is cut
 * in the middle of an event; no order of writes avoids that.
 *
 * Independent of that, counters of every event kind and reason are kept (per ring, added up on demand), also when no
 * trace file was asked for: they make the summary.
 *
 * The file is only ever written through a descriptor that still is that file: a program that closes all descriptors
 * and opens its own ends the trace, and does not find JSON in its data.
 *
 * This folder knows nothing of CUDA and uses base/ only. It never exits, aborts or prints to stdout; errors are
 * negative errno.
 */
#ifndef COISSUE_TRACE_TRACE_H
#define COISSUE_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
    TRACE_SUBMIT, /* caller: a launch was held. corr, lane, name, grid, block; ts = submission, dur = the call */
    TRACE_HOME,   /* caller: a launch was not held but issued by the caller. as SUBMIT, with reason */
    TRACE_ISSUE,  /* issuer: a held launch was issued. corr, lane, stream, reason, ts/dur = the driver call, submit_ns.
                     Launches that were coalesced: value[0] = number of the pack (0: none), [1] = its members, [2] = 1 in
                     one of its members; stream and ts/dur are the same for all of them */
    TRACE_COMPLETE, /* issuer: the first `corr` of what was issued for the lane are complete. lane, stream, corr, ts */
    TRACE_FLUSH,    /* caller: a call flushed lanes. name = the driver function, lane (UINT32_MAX: several), ts/dur */
    TRACE_OP,       /* issuer: a held op that is no kernel was issued. as ISSUE; name = the driver function */
    TRACE_REWRITE,  /* engine: a kernel was rewritten, or not. name, ts/dur, value[0] = refusal (0: none, it was), [1] =
                       form, [2] = members that fit */
    TRACE_LOAD,     /* engine: counters. value[0] = held, value[1] = in flight, value[2] = SM demand (thousandths) */
    TRACE_KIND_COUNT
};

/* 128 bytes, so that a ring slot is two cache lines. Strings are borrowed and must live as long as the process. */
struct trace_event {
    uint64_t ts_ns, dur_ns; /* CLOCK_MONOTONIC */
    uint64_t submit_ns;
    uint64_t corr;    /* names one launch in the whole process, from 1 */
    const char *name; /* kernel or driver function */
    uint64_t stream;  /* handle of the stream it was issued in */
    uint32_t lane;
    uint16_t kind;   /* enum trace_kind */
    uint16_t reason; /* row of scheduler/reasons.def */
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
    uint32_t device;
    uint32_t value[3];
    uint32_t tid; /* filled in by trace_put */
    uint32_t pad_[6];
};

struct trace_options {
    const char *path; /* a template as in config_expand_path. NULL or empty: count only, no file, no thread */
    uint64_t flush_ns;
    const char *version;  /* of coissue, for the metadata */
    const char *device;   /* name of the GPU, for the metadata; may be NULL */
    uint32_t rings;       /* threads that can trace; later threads lose their events, counted. 0: 64 */
    uint32_t ring_events; /* power of two. 0: 2048 */
    /* Texts of the reasons and decision kinds, so that trace/ need not know scheduler/. */
    const char *(*reason_name)(unsigned int reason);
    const char *(*reason_text)(unsigned int reason);
    const char *(*kind_name)(unsigned int reason); /* decision kind of that reason */
    unsigned int reason_count;                     /* at most TRACE_REASONS_MAX */
    /* The same of why kernels are not rewritten, so that trace/ need not know coalesce/. */
    const char *(*refusal_name)(unsigned int refusal);
    const char *(*refusal_text)(unsigned int refusal);
    unsigned int refusal_count; /* at most TRACE_REFUSALS_MAX */
};

/* Packs are counted by width: up to 2 members, up to 4, and so on; those beyond the last row are in it. */
enum { TRACE_REASONS_MAX = 64, TRACE_REFUSALS_MAX = 64, TRACE_WIDTHS = 7 };

struct trace;

/*
 * Creates missing folders of the path. A file that cannot be written, for whatever cause, is reported in one line, and
 * then events are only counted. A file that another process is writing is left alone: ".<pid>" is added to the name.
 * -EINVAL for options out of range, -ENOMEM; then `*trace` is untouched.
 */
int trace_create(const struct trace_options *options, struct trace **trace);

/* Are events written to a file? False for NULL, without a path, and if the file could not be made. */
bool trace_is_written(const struct trace *trace);

/*
 * Writes what is left, ends the writer thread, closes the file, waiting at most `timeout_ns`. NULL is fine. The memory
 * stays: threads that do not know that the process ends may still put events, which go nowhere, and totals can be read.
 */
void trace_destroy(struct trace *trace, uint64_t timeout_ns);

/* First thing in the child of a fork (pthread_atfork), before the program can close files: forgets the parent's thread
 * and closes the child's copy of the descriptor. NULL is fine. */
void trace_abandon(struct trace *trace);

/* Puts an event into the calling thread's ring. Safe in any thread; the first call of a thread takes it a ring, which
 * goes to another thread after its end. NULL is fine. Not for signal handlers. */
void trace_put(struct trace *trace, const struct trace_event *event);

/* Names for tracks. Called rarely; copies up to TRACE_NAME_MAX bytes. `lane` tracks are logical (numbers below
 * TRACE_LANES_MAX have names), `stream` tracks are what was issued to. NULL is fine. */
enum { TRACE_NAME_MAX = 95, TRACE_LANES_MAX = 1024 };

void trace_name_lane(struct trace *trace, uint32_t lane, const char *name);
void trace_name_stream(struct trace *trace, uint64_t stream, const char *name);

struct trace_totals {
    uint64_t seen;   /* launches: SUBMIT + HOME */
    uint64_t held;   /* SUBMIT */
    uint64_t issued; /* ISSUE */
    uint64_t alone, coscheduled, coalesced;
    uint64_t ops, flushes, lost;
    uint64_t hold_ns_total, hold_ns_max;   /* from submission to issue */
    uint64_t by_reason[TRACE_REASONS_MAX]; /* HOME and ISSUE */
    uint64_t packs, packed, widest;        /* packs, launches in them, launches in the largest one */
    uint64_t by_width[TRACE_WIDTHS];       /* packs of up to 2, 4, ..., 128 launches */
    uint64_t rewritten, refused;           /* REWRITE: one for each form of a kernel that was asked for */
    uint64_t by_refusal[TRACE_REFUSALS_MAX];
};
void trace_totals(const struct trace *trace, struct trace_totals *totals);

/* The table of the summary, for people. Like snprintf. */
size_t trace_summary(const struct trace *trace, char *buffer, size_t size);

#endif
