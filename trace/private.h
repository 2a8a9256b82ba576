/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of trace/ share.
 */
#ifndef COISSUE_TRACE_PRIVATE_H
#define COISSUE_TRACE_PRIVATE_H

#include "base/base.h"
#include "base/lock.h"
#include "base/path.h"
#include "base/text.h"
#include "base/thread.h"
#include "trace/trace.h"

#include <stdatomic.h>
#include <sys/stat.h>

/* Where a launch went, from the name of its reason's decision kind. */
enum { WENT_ALONE, WENT_COSCHEDULE, WENT_COALESCE, WENT_HOME, WENT_ELSEWHERE, WENT_COUNT };

/* Written by one thread, the ring's owner, and read by any: relaxed, for each value is true at some time and that is
 * all that a reader may expect. */
struct trace_counts {
    _Atomic uint64_t submitted, home, issued, ops, flushes, lost;
    _Atomic uint64_t hold_ns_total, hold_ns_max;
    _Atomic uint64_t by_reason[TRACE_REASONS_MAX];
    _Atomic uint64_t packs, packed, widest;
    _Atomic uint64_t by_width[TRACE_WIDTHS];
    _Atomic uint64_t by_refusal[TRACE_REFUSALS_MAX]; /* 0: rewritten */
};

/*
 * Single producer: the thread that owns it. Single consumer: the writer.
 *  head, release in trace_put / acquire in the writer: the events.
 *  tail, release in the writer / acquire in trace_put: the writer has read the slot, it may be written over.
 *  owned, release when a thread ends / acquire when another takes the ring: head, tail_seen and counts.
 */
struct trace_ring {
    _Alignas(CACHE_LINE) _Atomic uint64_t head;
    uint64_t tail_seen;         /* the owner's last look at tail */
    struct trace_event *events; /* NULL: count only */
    uint32_t tid;
    _Atomic uint32_t owned;
    struct trace_counts counts;

    _Alignas(CACHE_LINE) _Atomic uint64_t tail;
    uint64_t picked; /* the writer's: events up to here are in its hands */
};

struct trace {
    uint64_t id; /* no two traces of a process have the same, also if they have the same address */
    uint32_t ring_count;
    uint32_t ring_events;
    uint8_t went[TRACE_REASONS_MAX]; /* WENT_* of each reason */
    struct trace_options options;    /* path, version and device point to what follows */
    char version[64], device[128];
    struct trace_counts overflow; /* of threads that got no ring: the only one written by several */
    _Atomic uint32_t releases;    /* rings that came free so far: a reason to look for one again */
    struct trace_writer *writer;  /* NULL: count only */
    struct trace_ring *rings;
};

/* A stream that was issued to: two tracks, one for the calls that issued, one for the progress that was seen. */
struct trace_stream {
    uint64_t handle;
    uint32_t lane;      /* of special handles, which several streams share; otherwise UINT32_MAX */
    uint32_t tid;       /* 0: slot is free */
    uint32_t pending;   /* issued and not seen complete */
    uint64_t oldest_ns; /* when the first of those was issued, or when progress was last seen if that is later */
    uint64_t begun_ns;  /* begin of the last slice of an issue */
    uint64_t issued_ns, complete_ns; /* ends of the last slices */
    uint32_t pack;                   /* whose slice that is, 0: no pack's */
    char name[TRACE_NAME_MAX + 1];
};

/* Launches of one lane that were issued one after the other in the same stream. */
struct trace_run {
    struct trace_stream *stream;
    uint64_t launches; /* not seen complete */
};

/* A lane is at home, goes with a pack, and comes home: while one run completes the next one is issued. */
enum { RUNS_MAX = 4, PROGRESS_MAX = 8 };

struct trace_lane {
    bool named;
    uint64_t complete; /* of what was issued */
    uint32_t run_count;
    struct trace_run runs[RUNS_MAX]; /* oldest first */
    char name[TRACE_NAME_MAX + 1];
};

/* What completed in one stream, seen at one time: launches of several lanes, if they went in packs. */
struct trace_progress {
    struct trace_stream *stream;
    uint64_t begin_ns, launches;
    uint32_t device;
    uint32_t lane; /* UINT32_MAX: several */
};

struct trace_new_name {
    bool is_stream;
    uint64_t id; /* lane or stream */
    char name[TRACE_NAME_MAX + 1];
};

enum {
    STREAMS_MAX = 1024, /* power of two; more streams share a track */
    THREADS_MAX = 4096, /* power of two; more threads have no name */
    NEW_NAMES_MAX = 512,
    BUFFER_BYTES = 256 * 1024,
    /* One event: its name four times at most, all of it escaped to six bytes each, and the rest. */
    EVENT_NAME_MAX = 512,
    EVENT_TEXT_MAX = 4 * 6 * EVENT_NAME_MAX + 6144,
    TAIL_TEXT_MAX = 16 * 1024,
};

/* Turns events into text. Used by the writer thread only, and by trace_create before that thread is there. */
struct trace_tracks {
    const struct trace *trace;
    struct text *out;
    uint64_t base_ns; /* CLOCK_MONOTONIC at time 0 of the trace */
    uint32_t pid;
    uint32_t stream_count;
    uint32_t thread_count;
    uint32_t threads[THREADS_MAX]; /* hash set of tids that have a name */
    struct trace_stream streams[STREAMS_MAX];
    struct trace_stream other; /* for streams beyond STREAMS_MAX */
    struct trace_lane lanes[TRACE_LANES_MAX];
    char special_name[3][TRACE_NAME_MAX + 1];     /* of the handles 0, 1 and 2 */
    struct trace_progress progress[PROGRESS_MAX]; /* seen at `progress_ns`, and not written yet */
    uint32_t progress_count;
    uint64_t progress_ns;
    uint64_t rewritten_ns; /* end of the last slice of a rewriting */
    bool rewriting_named;
};

struct trace_pick {
    uint64_t ts_ns, dur_ns;
    const struct trace_event *event;
};

struct trace_writer {
    struct trace *trace;
    int fd;
    bool dead; /* the file cannot be written any more */
    struct stat file;
    uint64_t end; /* offset in the file where the tail begins */
    uint64_t events_written, lost_written;
    struct trace_totals totals_written;
    uint64_t real_base_ns;
    _Atomic uint64_t discarded; /* taken from rings and not written */
    _Atomic uint32_t stop;
    struct thread thread;
    struct text out;
    struct trace_pick *picks;
    char *buffer;
    char path[PATH_TEXT_MAX];
    char host[65], command[1024];

    struct lock names_lock;
    uint32_t new_name_count;
    struct trace_new_name new_names[NEW_NAMES_MAX];

    struct trace_tracks tracks;
};

/* Opens the file and starts the thread. False, after one line in the log, if there will be no file. */
bool trace_writer_start(struct trace *trace, struct trace_writer *writer, struct trace_pick *picks, char *buffer);
void trace_writer_stop(struct trace_writer *writer, uint64_t timeout_ns);

/* Adds one or more JSON events, each preceded by a comma, at most EVENT_TEXT_MAX bytes. */
void trace_tracks_event(struct trace_tracks *tracks, const struct trace_event *event);
void trace_tracks_name(struct trace_tracks *tracks, const struct trace_new_name *name);
/* Adds what was kept back because more could have belonged to it: at the end of the events that are there. */
void trace_tracks_pause(struct trace_tracks *tracks);
/* Names of the processes: the first events of the file, without a comma in front. */
void trace_tracks_begin(struct trace_tracks *tracks);

uint64_t trace_lost(const struct trace *trace);

#endif
