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
 *   rewriting of kernels              slices (process of the streams)
 *   counters (process of the streams)
 *
 * A pack, several launches that were coalesced, is one call and one slice; the flow of each member ends in it. What is
 * particular to a member, such as its lane and how long it was held, is with the end of its pair.
 *
 * Slices of one track may nest but not overlap. Caller threads cannot overlap with themselves. Issue slices of a stream
 * come from several threads and reach the writer out of order now and then: they are clamped, and say so.
 */
#include "trace/private.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { LANES_PID = 10000000, STREAMS_PID = 20000000 };
enum { REWRITING_TID = 2 * STREAMS_MAX + 3 }; /* above those of all streams, in their process */

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

static bool is_member(const struct trace_event *event)
{
    return event->kind == TRACE_ISSUE && event->value[0];
}

static void add_pack(struct text *out, const struct trace_event *event)
{
    field(out, "\"pack\":", event->value[0]);
    field(out, ",\"members\":", event->value[1]);
}

static void add_held_time(struct text *out, const struct trace_event *event)
{
    if (event->submit_ns && event->kind != TRACE_HOME)
        microseconds(out, ",\"held_us\":", event->ts_ns > event->submit_ns ? event->ts_ns - event->submit_ns : 0);
}

/* What is known of one member of a pack. Its pack has one slice for all of them. */
static void add_member(const struct trace_tracks *tracks, const struct trace_event *event)
{
    struct text *out = tracks->out;

    text_string(out, ",\"args\":{");
    add_pack(out, event);
    field(out, ",\"correlation\":", event->corr);
    field(out, ",\"lane\":", event->lane);
    add_geometry(out, event);
    add_reason(tracks, event);
    add_held_time(out, event);
    text_char(out, '}');
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
        } else if (is_member(event)) {
            add_member(tracks, event);
        }
        text_char(out, '}');
    }
}

/* A pack, drawn with its first member that arrives, has a correlation and a time for each member: see add_member. */
static void draw_issue(struct trace_tracks *tracks, struct trace_stream *stream, const struct trace_event *event)
{
    struct text *out = tracks->out;
    uint64_t begin = event->ts_ns > stream->issued_ns ? event->ts_ns : stream->issued_ns;
    uint64_t end = event->ts_ns + event->dur_ns > begin ? event->ts_ns + event->dur_ns : begin;

    begin_event(tracks, "X", STREAMS_PID + tracks->pid, stream->tid, begin);
    microseconds(out, ",\"dur\":", end - begin);
    add_name(out, "issue", event->name);
    text_string(out, ",\"args\":{");
    if (is_member(event)) {
        add_pack(out, event);
    } else {
        field(out, "\"correlation\":", event->corr);
        field(out, ",\"lane\":", event->lane);
        add_held_time(out, event);
    }
    text_string(out, ",\"stream\":\"");
    text_hex(out, event->stream);
    field(out, "\",\"device\":", event->device);
    if (event->kind != TRACE_OP)
        add_geometry(out, event);
    add_reason(tracks, event);
    if (begin != event->ts_ns)
        microseconds(out, ",\"clamped_us\":", begin - event->ts_ns);
    text_string(out, "}}");

    stream->begun_ns = begin;
    stream->issued_ns = end;
    stream->pack = is_member(event) ? event->value[0] : 0;
}

static void drop_pending(struct trace_stream *stream, uint64_t launches)
{
    stream->pending -= launches < stream->pending ? (uint32_t)launches : stream->pending;
}

/* A launch is in the stream: it will be seen to complete as one of its lane's, and the lane does not say where. */
static void note_issue(struct trace_tracks *tracks, struct trace_stream *stream, const struct trace_event *event)
{
    struct trace_lane *lane = event->lane < TRACE_LANES_MAX ? &tracks->lanes[event->lane] : NULL;

    if (!stream->pending++)
        stream->oldest_ns = stream->begun_ns;
    if (!lane)
        return;
    if (lane->run_count && lane->runs[lane->run_count - 1].stream == stream) {
        lane->runs[lane->run_count - 1].launches++;
        return;
    }
    if (lane->run_count == RUNS_MAX) { /* nothing was seen to complete for so long: the oldest counts as done */
        drop_pending(lane->runs[0].stream, lane->runs[0].launches);
        memmove(lane->runs, lane->runs + 1, sizeof(lane->runs) - sizeof(lane->runs[0]));
        lane->run_count--;
    }
    lane->runs[lane->run_count++] = (struct trace_run){stream, 1};
}

static void issue_slice(struct trace_tracks *tracks, const struct trace_event *event)
{
    struct trace_stream *stream = see_stream(tracks, event);

    if (event->kind != TRACE_HOME)
        held_pair(tracks, event);
    if (!is_member(event) || stream->pack != event->value[0])
        draw_issue(tracks, stream, event);
    if (event->kind != TRACE_OP)
        flow_end(tracks, "f", STREAMS_PID + tracks->pid, stream->tid, stream->begun_ns, event->corr);
    if (event->kind != TRACE_HOME)
        note_issue(tracks, stream, event);
}

static void progress_slice(struct trace_tracks *tracks, const struct trace_progress *seen)
{
    struct trace_stream *stream = seen->stream;
    struct text *out = tracks->out;

    begin_event(tracks, "X", STREAMS_PID + tracks->pid, stream->tid + 1, seen->begin_ns);
    microseconds(out, ",\"dur\":", tracks->progress_ns - seen->begin_ns);
    text_string(out, ",\"cat\":\"device\",\"name\":\"");
    text_unsigned(out, seen->launches);
    text_string(out, seen->launches == 1 ? " launch\"" : " launches\"");
    field(out, ",\"args\":{\"device\":", seen->device);
    if (seen->lane != UINT32_MAX)
        field(out, ",\"lane\":", seen->lane);
    else
        text_string(out, ",\"lane\":\"several\"");
    text_string(out, ",\"stream\":\"");
    text_hex(out, stream->handle);
    text_string(out, "\"}}");
    stream->complete_ns = tracks->progress_ns;
}

void trace_tracks_pause(struct trace_tracks *tracks)
{
    for (uint32_t i = 0; i < tracks->progress_count; i++)
        if (tracks->progress_ns > tracks->progress[i].begin_ns)
            progress_slice(tracks, &tracks->progress[i]);
    tracks->progress_count = 0;
}

/*
 * Progress is seen now and then, for all launches since the last time. The slice begins where the device can first have
 * worked on them: at the first issue after the stream was idle, or when it was last seen to have completed something.
 * Lanes that went in packs are seen to complete together: their launches are added up to one slice.
 */
static void add_progress(struct trace_tracks *tracks, struct trace_stream *stream, const struct trace_event *event,
                         uint64_t launches)
{
    struct trace_progress *seen;
    uint32_t i = 0;

    if (tracks->progress_ns != event->ts_ns || tracks->progress_count == PROGRESS_MAX)
        trace_tracks_pause(tracks);
    tracks->progress_ns = event->ts_ns;
    if (!stream->pending) /* the events of its issues were lost */
        return;
    while (i < tracks->progress_count && tracks->progress[i].stream != stream)
        i++;
    seen = &tracks->progress[i];
    if (i == tracks->progress_count) {
        uint64_t begin = stream->oldest_ns > stream->complete_ns ? stream->oldest_ns : stream->complete_ns;

        tracks->progress_count++;
        *seen = (struct trace_progress){stream, begin, 0, event->device, event->lane};
    }
    seen->launches += launches;
    if (seen->lane != event->lane)
        seen->lane = UINT32_MAX;
    drop_pending(stream, launches);
}

static void complete(struct trace_tracks *tracks, const struct trace_event *event)
{
    struct trace_lane *lane = event->lane < TRACE_LANES_MAX ? &tracks->lanes[event->lane] : NULL;
    uint64_t launches = event->corr;

    if (!lane) {
        add_progress(tracks, see_stream(tracks, event), event, launches);
        return;
    }
    if (event->corr > lane->complete) /* otherwise the lane's number was given to a new lane */
        launches -= lane->complete;
    lane->complete = event->corr;
    while (launches && lane->run_count) {
        struct trace_run *run = &lane->runs[0];
        uint64_t done = launches < run->launches ? launches : run->launches;

        add_progress(tracks, run->stream, event, done);
        launches -= done;
        run->launches -= done;
        if (run->launches)
            break;
        memmove(run, run + 1, sizeof(lane->runs) - sizeof(*run));
        lane->run_count--;
    }
}

/* On a track of their own, whoever does it: the library's thread for that, or, when verifying, those of the program. */
static void rewrite_slice(struct trace_tracks *tracks, const struct trace_event *event)
{
    const struct trace_options *options = &tracks->trace->options;
    uint64_t begin = event->ts_ns > tracks->rewritten_ns ? event->ts_ns : tracks->rewritten_ns;
    uint64_t end = event->ts_ns + event->dur_ns > begin ? event->ts_ns + event->dur_ns : begin;
    uint32_t pid = STREAMS_PID + tracks->pid, refusal = event->value[0];
    struct text *out = tracks->out;

    if (!tracks->rewriting_named) {
        tracks->rewriting_named = true;
        metadata(tracks, "thread_name", pid, REWRITING_TID, "kernel rewriting");
        sort_index(tracks, "thread_sort_index", pid, REWRITING_TID, REWRITING_TID);
    }
    begin_event(tracks, "X", pid, REWRITING_TID, begin);
    microseconds(out, ",\"dur\":", end - begin);
    add_name(out, "rewrite", event->name);
    if (refusal < options->refusal_count && options->refusal_name) {
        text_string(out, ",\"args\":{\"result\":");
        text_json(out, options->refusal_name(refusal), EVENT_NAME_MAX);
        text_string(out, ",\"result text\":");
        text_json(out, options->refusal_text ? options->refusal_text(refusal) : "", EVENT_NAME_MAX);
    } else {
        field(out, ",\"args\":{\"result\":", refusal);
    }
    text_string(out, refusal ? ",\"rewritten\":false" : ",\"rewritten\":true");
    field(out, ",\"form\":", event->value[1]);
    field(out, ",\"members\":", event->value[2]);
    field(out, ",\"device\":", event->device);
    text_string(out, "}}");
    tracks->rewritten_ns = end;
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
        complete(tracks, event);
        break;
    case TRACE_LOAD:
        counters(tracks, event);
        break;
    case TRACE_REWRITE:
        rewrite_slice(tracks, event);
        break;
    }
}
