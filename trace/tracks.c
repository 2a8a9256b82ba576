/* SPDX-License-Identifier: Apache-2.0
 *
 * From events to JSON: which slice, pair, flow or counter an event becomes, and on which track.
 *
 * A viewer shows tracks by process and thread, so what is neither gets numbers of its own: a process for the logical
 * lanes and one for the streams. Their ids are derived from the real process id, so that traces of several processes
 * can be loaded together, and lie above every real one (at most 2^22, PID_MAX_LIMIT of Linux).
 *
 *   caller threads (real process)     slices: calls that held, issued or flushed; flows begin here
 *   lanes                             pairs: a launch from submission to issue. They overlap, so they are no slices
 *   streams, two tracks for each      slices: calls that issued, flows end here; and what was seen to complete
 *   counters (process of the streams)
 *
 * Slices of one track may nest but not overlap. Caller threads cannot overlap with themselves. Issue slices of a stream
 * come from several threads and reach the writer out of order now and then: they are clamped, and say so.
 */
#include "trace/private.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { LANES_PID = 10000000, STREAMS_PID = 20000000 };

static void field(struct text *out, const char *key, uint64_t value)
{
    text_string(out, key);
    text_unsigned(out, value);
}

static void microseconds(struct text *out, const char *key, uint64_t ns)
{
    text_string(out, key);
    text_decimal(out, ns, 3);
}

/* Everything up to the time stamp; the caller adds what follows and the closing brace. Times before the base are 0. */
static void begin_event(struct trace_tracks *tracks, const char *phase, uint32_t pid, uint32_t tid, uint64_t ts_ns)
{
    struct text *out = tracks->out;

    text_string(out, ",\n{\"ph\":\"");
    text_string(out, phase);
    field(out, "\",\"pid\":", pid);
    field(out, ",\"tid\":", tid);
    microseconds(out, ",\"ts\":", ts_ns > tracks->base_ns ? ts_ns - tracks->base_ns : 0);
}

static void add_name(struct text *out, const char *category, const char *name)
{
    text_string(out, ",\"cat\":\"");
    text_string(out, category);
    text_string(out, "\",\"name\":");
    text_json(out, name ? name : "(no name)", EVENT_NAME_MAX);
}

static void add_geometry(struct text *out, const struct trace_event *event)
{
    const uint32_t *const sizes[2] = {event->grid, event->block};

    for (int i = 0; i < 2; i++) {
        field(out, i ? ",\"block\":[" : ",\"grid\":[", sizes[i][0]);
        field(out, ",", sizes[i][1]);
        field(out, ",", sizes[i][2]);
        text_char(out, ']');
    }
    field(out, ",\"shared memory\":", event->shared_bytes);
}

static void add_reason(const struct trace_tracks *tracks, const struct trace_event *event)
{
    const struct trace_options *options = &tracks->trace->options;
    struct text *out = tracks->out;

    if (event->reason >= options->reason_count || !options->reason_name) {
        field(out, ",\"reason\":", event->reason);
        return;
    }
    if (options->kind_name) {
        text_string(out, ",\"decision\":");
        text_json(out, options->kind_name(event->reason), EVENT_NAME_MAX);
    }
    text_string(out, ",\"reason\":");
    text_json(out, options->reason_name(event->reason), EVENT_NAME_MAX);
    if (options->reason_text) {
        text_string(out, ",\"reason text\":");
        text_json(out, options->reason_text(event->reason), EVENT_NAME_MAX);
    }
}

static void metadata(struct trace_tracks *tracks, const char *what, uint32_t pid, uint32_t tid, const char *name)
{
    struct text *out = tracks->out;

    text_string(out, ",\n{\"ph\":\"M\",\"name\":\"");
    text_string(out, what);
    field(out, "\",\"pid\":", pid);
    field(out, ",\"tid\":", tid);
    text_string(out, ",\"args\":{\"name\":");
    text_json(out, name, EVENT_NAME_MAX);
    text_string(out, "}}");
}

static void sort_index(struct trace_tracks *tracks, const char *what, uint32_t pid, uint32_t tid, uint32_t index)
{
    struct text *out = tracks->out;

    text_string(out, ",\n{\"ph\":\"M\",\"name\":\"");
    text_string(out, what);
    field(out, "\",\"pid\":", pid);
    field(out, ",\"tid\":", tid);
    field(out, ",\"args\":{\"sort_index\":", index);
    text_string(out, "}}");
}

static void read_comm(const char *path, char *name, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, name, size - 1);

    if (fd >= 0)
        close(fd);
    name[length > 0 ? length : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

void trace_tracks_begin(struct trace_tracks *tracks)
{
    struct text *out = tracks->out;
    size_t begin = out->length;
    char name[64];

    read_comm("/proc/self/comm", name, sizeof(name));
    metadata(tracks, "process_name", tracks->pid, 0, *name ? name : "process");
    sort_index(tracks, "process_sort_index", tracks->pid, 0, 0);
    metadata(tracks, "process_name", LANES_PID + tracks->pid, 0, "coissue lanes");
    sort_index(tracks, "process_sort_index", LANES_PID + tracks->pid, 0, 1);
    metadata(tracks, "process_name", STREAMS_PID + tracks->pid, 0, "coissue issue streams");
    sort_index(tracks, "process_sort_index", STREAMS_PID + tracks->pid, 0, 2);
    out->at[begin] = ' '; /* the first comma of the array */
}

/* Names a thread when it is first seen. It may have ended since; then it stays a number. */
static void see_thread(struct trace_tracks *tracks, uint32_t tid)
{
    uint32_t i = tid * 2654435761u; /* Knuth's multiplicative hash */
    struct text path;
    char buffer[64], name[64];

    for (;; i++) {
        if (tracks->threads[i % THREADS_MAX] == tid)
            return;
        if (!tracks->threads[i % THREADS_MAX])
            break;
    }
    if (tracks->thread_count >= THREADS_MAX / 2) /* a probe must end at a free place */
        return;
    tracks->thread_count++;
    tracks->threads[i % THREADS_MAX] = tid;
    text_init(&path, buffer, sizeof(buffer));
    text_string(&path, "/proc/self/task/");
    text_unsigned(&path, tid);
    text_string(&path, "/comm");
    text_end(&path);
    read_comm(buffer, name, sizeof(name));
    if (*name)
        metadata(tracks, "thread_name", tracks->pid, tid, name);
}

static void name_stream(struct trace_tracks *tracks, struct trace_stream *stream)
{
    uint32_t pid = STREAMS_PID + tracks->pid;
    char name[TRACE_NAME_MAX + 32];
    struct text text;

    text_init(&text, name, sizeof(name));
    text_string(&text, stream->name);
    if (!text.length) {
        text_string(&text, "stream ");
        text_hex(&text, stream->handle);
    }
    text_end(&text);
    metadata(tracks, "thread_name", pid, stream->tid, name);
    sort_index(tracks, "thread_sort_index", pid, stream->tid, stream->tid);
    text_string(&text, ": completed");
    text_end(&text);
    metadata(tracks, "thread_name", pid, stream->tid + 1, name);
    sort_index(tracks, "thread_sort_index", pid, stream->tid + 1, stream->tid + 1);
}

/* The handles 0, 1 and 2 are no streams but ways to say "the default stream", of which every context has one. */
static bool is_special(uint64_t handle)
{
    return handle <= 2;
}

static struct trace_stream *find_stream(struct trace_tracks *tracks, uint64_t handle, uint32_t lane)
{
    uint64_t hash = (handle ^ (uint64_t)lane << 32) * 0x9e3779b97f4a7c15u; /* Fibonacci hashing */
    struct trace_stream *stream;
    bool fresh;

    for (uint32_t i = (uint32_t)(hash >> 40);; i++) {
        stream = &tracks->streams[i % STREAMS_MAX];
        if (!stream->tid || (stream->handle == handle && stream->lane == lane))
            break;
    }
    if (stream->tid)
        return stream;
    if (tracks->stream_count >= STREAMS_MAX / 2) /* a probe must end at a free place */
        stream = &tracks->other;
    fresh = !stream->tid;
    if (!fresh)
        return stream;
    stream->tid = 2 * tracks->stream_count++ + 1;
    stream->handle = handle;
    stream->lane = lane;
    if (stream == &tracks->other)
        strcpy(stream->name, "other streams");
    else if (is_special(handle))
        memcpy(stream->name, tracks->special_name[handle], sizeof(stream->name));
    return stream;
}

/* A stream that something happens in: from now on it has tracks. */
static struct trace_stream *see_stream(struct trace_tracks *tracks, const struct trace_event *event)
{
    uint32_t before = tracks->stream_count;
    struct trace_stream *stream =
        find_stream(tracks, event->stream, is_special(event->stream) ? event->lane : UINT32_MAX);

    if (tracks->stream_count != before)
        name_stream(tracks, stream);
    return stream;
}

static void lane_name(const struct trace_tracks *tracks, uint32_t lane, char *name, size_t size)
{
    struct text text;

    text_init(&text, name, size);
    if (lane < TRACE_LANES_MAX && *tracks->lanes[lane].name) {
        text_string(&text, tracks->lanes[lane].name);
    } else {
        text_string(&text, "lane ");
        text_unsigned(&text, lane);
    }
    text_end(&text);
}

static void name_lane(struct trace_tracks *tracks, uint32_t lane)
{
    uint32_t pid = LANES_PID + tracks->pid;
    char name[TRACE_NAME_MAX + 1];

    if (lane >= TRACE_LANES_MAX)
        return;
    tracks->lanes[lane].named = true;
    lane_name(tracks, lane, name, sizeof(name));
    metadata(tracks, "thread_name", pid, lane + 1, name);
    sort_index(tracks, "thread_sort_index", pid, lane + 1, lane + 1);
}

void trace_tracks_name(struct trace_tracks *tracks, const struct trace_new_name *name)
{
    struct trace_stream *stream;

    if (!name->is_stream) {
        if (name->id >= TRACE_LANES_MAX)
            return;
        memcpy(tracks->lanes[name->id].name, name->name, sizeof(name->name));
        name_lane(tracks, (uint32_t)name->id);
        return;
    }
    if (is_special(name->id)) {
        memcpy(tracks->special_name[name->id], name->name, sizeof(name->name));
        return;
    }
    stream = find_stream(tracks, name->id, UINT32_MAX);
    if (stream == &tracks->other)
        return;
    memcpy(stream->name, name->name, sizeof(stream->name));
    name_stream(tracks, stream);
}

/* One end of a flow, within the slice that was written just before. */
static void flow_end(struct trace_tracks *tracks, const char *phase, uint32_t pid, uint32_t tid, uint64_t ts_ns,
                     uint64_t corr)
{
    if (!corr)
        return;
    begin_event(tracks, phase, pid, tid, ts_ns);
    field(tracks->out, ",\"id\":", corr);
    text_string(tracks->out, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"");
    text_string(tracks->out, *phase == 'f' ? ",\"bp\":\"e\"}" : "}");
}

static void caller_slice(struct trace_tracks *tracks, const struct trace_event *event)
{
    struct text *out = tracks->out;

    see_thread(tracks, event->tid);
    begin_event(tracks, "X", tracks->pid, event->tid, event->ts_ns);
    microseconds(out, ",\"dur\":", event->dur_ns);
    add_name(out, "cuda_driver", event->name);
    text_string(out, ",\"args\":{");
    if (event->lane != UINT32_MAX)
        field(out, "\"lane\":", event->lane);
    else
        text_string(out, "\"lane\":\"several\"");
    if (event->kind != TRACE_FLUSH) {
        field(out, ",\"correlation\":", event->corr);
        add_geometry(out, event);
    }
    if (event->kind == TRACE_HOME)
        add_reason(tracks, event);
    text_string(out, event->kind == TRACE_SUBMIT ? ",\"call\":\"held\"}}" : "}}");
    if (event->kind != TRACE_FLUSH)
        flow_end(tracks, "s", tracks->pid, event->tid, event->ts_ns, event->corr);
}

/* The time in the lane. Named after the lane, because viewers put pairs with one name into one row. */
static void held_pair(struct trace_tracks *tracks, const struct trace_event *event)
{
    struct text *out = tracks->out;
    char name[TRACE_NAME_MAX + 1];

    if (!event->corr || !event->submit_ns)
        return;
    if (event->lane < TRACE_LANES_MAX && !tracks->lanes[event->lane].named)
        name_lane(tracks, event->lane);
    lane_name(tracks, event->lane, name, sizeof(name));
    for (int end = 0; end < 2; end++) {
        uint64_t later = event->ts_ns > event->submit_ns ? event->ts_ns : event->submit_ns;

        begin_event(tracks, end ? "e" : "b", LANES_PID + tracks->pid, event->lane + 1, end ? later : event->submit_ns);
        field(out, ",\"id\":", event->corr);
        add_name(out, "held", name);
        if (!end) {
            field(out, ",\"args\":{\"correlation\":", event->corr);
            text_string(out, ",\"kernel\":");
            text_json(out, event->name, EVENT_NAME_MAX);
            text_char(out, '}');
        }
        text_char(out, '}');
    }
}

static void issue_slice(struct trace_tracks *tracks, const struct trace_event *event)
{
    struct trace_stream *stream = see_stream(tracks, event);
    struct text *out = tracks->out;
    uint64_t begin = event->ts_ns > stream->issued_ns ? event->ts_ns : stream->issued_ns;
    uint64_t end = event->ts_ns + event->dur_ns > begin ? event->ts_ns + event->dur_ns : begin;

    if (event->kind != TRACE_HOME)
        held_pair(tracks, event);
    begin_event(tracks, "X", STREAMS_PID + tracks->pid, stream->tid, begin);
    microseconds(out, ",\"dur\":", end - begin);
    add_name(out, "issue", event->name);
    field(out, ",\"args\":{\"correlation\":", event->corr);
    text_string(out, ",\"stream\":\"");
    text_hex(out, event->stream);
    field(out, "\",\"device\":", event->device);
    field(out, ",\"lane\":", event->lane);
    if (event->kind != TRACE_OP)
        add_geometry(out, event);
    add_reason(tracks, event);
    if (event->submit_ns && event->kind != TRACE_HOME)
        microseconds(out, ",\"held_us\":", event->ts_ns > event->submit_ns ? event->ts_ns - event->submit_ns : 0);
    if (begin != event->ts_ns)
        microseconds(out, ",\"clamped_us\":", begin - event->ts_ns);
    text_string(out, "}}");
    if (event->kind != TRACE_OP)
        flow_end(tracks, "f", STREAMS_PID + tracks->pid, stream->tid, begin, event->corr);

    stream->issued_ns = end;
    if (event->kind != TRACE_HOME && !stream->pending++)
        stream->oldest_ns = begin;
}

/*
 * Progress is seen now and then, for all launches since the last time. The slice begins where the device can first have
 * worked on them: at the first issue after the stream was idle, or when it was last seen to have completed something.
 */
static void complete_slice(struct trace_tracks *tracks, const struct trace_event *event)
{
    struct trace_stream *stream = see_stream(tracks, event);
    struct text *out = tracks->out;
    uint64_t launches = event->corr, begin;

    if (event->lane < TRACE_LANES_MAX) {
        struct trace_lane *lane = &tracks->lanes[event->lane];

        if (event->corr > lane->complete) /* otherwise the lane's number was given to a new lane */
            launches -= lane->complete;
        lane->complete = event->corr;
    }
    if (!stream->pending) /* the events of its issues were lost */
        return;
    begin = stream->oldest_ns > stream->complete_ns ? stream->oldest_ns : stream->complete_ns;
    if (event->ts_ns > begin) {
        begin_event(tracks, "X", STREAMS_PID + tracks->pid, stream->tid + 1, begin);
        microseconds(out, ",\"dur\":", event->ts_ns - begin);
        text_string(out, ",\"cat\":\"device\",\"name\":\"");
        text_unsigned(out, launches);
        text_string(out, launches == 1 ? " launch\"" : " launches\"");
        field(out, ",\"args\":{\"device\":", event->device);
        field(out, ",\"lane\":", event->lane);
        text_string(out, ",\"stream\":\"");
        text_hex(out, event->stream);
        text_string(out, "\"}}");
        stream->complete_ns = event->ts_ns;
    }
    stream->pending -= launches < stream->pending ? (uint32_t)launches : stream->pending;
}

static void counters(struct trace_tracks *tracks, const struct trace_event *event)
{
    static const char *const names[] = {"held launches", "in flight", "SM demand"};
    struct text *out = tracks->out;

    for (int i = 0; i < 3; i++) {
        begin_event(tracks, "C", STREAMS_PID + tracks->pid, 0, event->ts_ns);
        text_string(out, ",\"name\":\"");
        text_string(out, names[i]);
        if (event->device)
            field(out, ", device ", event->device);
        text_string(out, "\",\"args\":{\"value\":");
        text_decimal_short(out, event->value[i], i == 2 ? 3 : 0);
        text_string(out, "}}");
    }
}

void trace_tracks_event(struct trace_tracks *tracks, const struct trace_event *event)
{
    switch (event->kind) {
    case TRACE_HOME:
        caller_slice(tracks, event);
        issue_slice(tracks, event);
        break;
    case TRACE_SUBMIT:
    case TRACE_FLUSH:
        caller_slice(tracks, event);
        break;
    case TRACE_ISSUE:
    case TRACE_OP:
        issue_slice(tracks, event);
        break;
    case TRACE_COMPLETE:
        complete_slice(tracks, event);
        break;
    case TRACE_LOAD:
        counters(tracks, event);
        break;
    }
}
