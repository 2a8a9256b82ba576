/* SPDX-License-Identifier: Apache-2.0
 *
 * The file and the thread that writes it.
 *
 * The file is a head, written once, events, and a tail that closes all brackets and tells what was lost. Each flush
 * writes, in one call, new events over the old tail and a new tail behind them.
 *
 * The thread looks into the rings more often than it writes, because at full speed a ring fills within a flush period.
 * It looks by the clock, so that putting an event never needs a system call.
 */
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "trace/private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum {
    /* The default ring of 2,048 events in this time are 400,000 a second. A process that runs ResNet-18 at batch size 1
     * makes 65,000 launches a second (102 launches, 641 times; H200), each of them up to three events of the issuer. */
    LOOK_NS = 5000000,
    FLUSH_DEFAULT_NS = 100000000,
};

/* Heap sort: in place, never quadratic, and unlike qsort of the C library without malloc. Earlier first; of two that
 * begin together, the longer first, because it contains the other. Otherwise what is together in a ring, such as the
 * members of a pack, stays together. */
static bool comes_before(const struct trace_pick *a, const struct trace_pick *b)
{
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns;
    if (a->dur_ns != b->dur_ns)
        return a->dur_ns > b->dur_ns;
    return a->event < b->event;
}

static void sift_down(struct trace_pick *picks, size_t root, size_t count)
{
    struct trace_pick moved = picks[root];

    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && comes_before(&picks[child], &picks[child + 1]))
            child++;
        if (!comes_before(&moved, &picks[child]))
            break;
        picks[root] = picks[child];
    }
    picks[root] = moved;
}

static void sort_picks(struct trace_pick *picks, size_t count)
{
    for (size_t i = count / 2; i-- > 0;)
        sift_down(picks, i, count);
    for (size_t end = count; end-- > 1;) {
        struct trace_pick last = picks[end];

        picks[end] = picks[0];
        picks[0] = last;
        sift_down(picks, 0, end);
    }
}

static void add_head(struct trace_writer *writer)
{
    struct text *out = &writer->out;

    text_string(out, "{\"schemaVersion\":1,\"deviceProperties\":[");
    if (*writer->trace->device) {
        text_string(out, "{\"id\":0,\"name\":");
        text_json(out, writer->trace->device, SIZE_MAX);
        text_char(out, '}');
    }
    text_string(out, "],\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":");
    text_unsigned(out, writer->real_base_ns);
    text_string(out, ",\"traceEvents\":[\n");
    trace_tracks_begin(&writer->tracks);
}

/* "pack widths": packs of up to 2, 4, ... members. "refusals": only those that there were. */
static void add_pack_totals(const struct trace_options *options, struct text *out, const struct trace_totals *totals)
{
    bool any = false;

    text_string(out, ",\"pack widths\":{");
    for (unsigned int i = 0; i < TRACE_WIDTHS; i++) {
        text_string(out, i ? ",\"" : "\"");
        text_unsigned(out, 2u << i);
        text_string(out, "\":");
        text_unsigned(out, totals->by_width[i]);
    }
    text_string(out, "},\"refusals\":{");
    for (unsigned int i = 1; i < options->refusal_count && options->refusal_name; i++) {
        if (!totals->by_refusal[i])
            continue;
        if (any)
            text_char(out, ',');
        text_json(out, options->refusal_name(i), 64);
        text_char(out, ':');
        text_unsigned(out, totals->by_refusal[i]);
        any = true;
    }
    text_char(out, '}');
}

/* What was counted so far: complete also when events were lost. */
static void add_totals(const struct trace_options *options, struct text *out, const struct trace_totals *totals)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"seen", totals->seen},
        {"held", totals->held},
        {"issued", totals->issued},
        {"alone", totals->alone},
        {"coscheduled", totals->coscheduled},
        {"coalesced", totals->coalesced},
        {"ops", totals->ops},
        {"flushes", totals->flushes},
        {"packs", totals->packs},
        {"packed", totals->packed},
        {"widest", totals->widest},
        {"rewritten", totals->rewritten},
        {"refused", totals->refused},
    };

    text_string(out, ",\"totals\":{");
    for (size_t i = 0; i < array_length(rows); i++) {
        text_string(out, i ? ",\"" : "\"");
        text_string(out, rows[i].name);
        text_string(out, "\":");
        text_unsigned(out, rows[i].value);
    }
    add_pack_totals(options, out, totals);
    text_string(out, "}");
}

static void add_tail(struct trace_writer *writer, uint64_t lost, const struct trace_totals *totals)
{
    struct text *out = &writer->out;

    text_string(out, "\n],\"otherData\":{\"tool\":\"coissue\",\"version\":");
    text_json(out, writer->trace->version, SIZE_MAX);
    text_string(out, ",\"pid\":");
    text_unsigned(out, writer->tracks.pid);
    text_string(out, ",\"host\":");
    text_json(out, writer->host, SIZE_MAX);
    text_string(out, ",\"command line\":");
    text_json(out, writer->command, SIZE_MAX);
    text_string(out, ",\"monotonic base ns\":");
    text_unsigned(out, writer->tracks.base_ns);
    text_string(out, ",\"events\":");
    text_unsigned(out, writer->events_written);
    text_string(out, ",\"lost events\":");
    text_unsigned(out, lost);
    add_totals(&writer->trace->options, out, totals);
    text_string(out, "}}\n");
}

static int write_all(int fd, const char *bytes, size_t count, uint64_t offset)
{
    while (count) {
        ssize_t written = pwrite(fd, bytes, count, (off_t)offset);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written ? -errno : -EIO;
        bytes += written;
        count -= (size_t)written;
        offset += (uint64_t)written;
    }
    return 0;
}

/* Is the descriptor still ours? The program may have closed it and opened another file, which got its number. */
static bool still_ours(const struct trace_writer *writer)
{
    struct stat now;

    return !fstat(writer->fd, &now) && now.st_dev == writer->file.st_dev && now.st_ino == writer->file.st_ino;
}

/* The program goes on and events are counted as lost. A full disk has cut the new text: the old tail, whose place in
 * the file was paid for before, closes the brackets again. */
static void give_up(struct trace_writer *writer, int error)
{
    struct text *out = &writer->out;

    writer->dead = true;
    if (error == -EBADF) {
        log_warn("trace: the program closed the descriptor of %s; the trace ends here", writer->path);
        return;
    }
    errno = -error;
    log_warn("trace: %s: %m; the trace ends here", writer->path);
    out->length = 0;
    add_tail(writer, writer->lost_written, &writer->totals_written);
    text_end(out);
    if (!ftruncate(writer->fd, (off_t)writer->end))
        write_all(writer->fd, out->at, out->length, writer->end);
}

/* Writes what the buffer holds and the tail, and empties the buffer. `events` are in it. */
static int write_out(struct trace_writer *writer, uint64_t events)
{
    size_t length = writer->out.length;
    uint64_t lost = trace_lost(writer->trace);
    uint64_t before = writer->events_written;
    struct trace_totals totals;
    int error;

    if (writer->dead || (!length && lost == writer->lost_written))
        return 0;
    writer->events_written += events;
    trace_totals(writer->trace, &totals);
    add_tail(writer, lost, &totals);
    error = still_ours(writer) ? write_all(writer->fd, writer->out.at, writer->out.length, writer->end) : -EBADF;
    if (error) {
        writer->events_written = before;
        atomic_fetch_add_explicit(&writer->discarded, events, memory_order_relaxed);
        give_up(writer, error);
    } else {
        writer->end += length;
        writer->lost_written = lost;
        writer->totals_written = totals;
    }
    writer->out.length = 0;
    return error;
}

/* The next event will fit. `*waiting`: events in the buffer, not written. */
static void make_room(struct trace_writer *writer, uint64_t *waiting)
{
    if (writer->out.length <= BUFFER_BYTES - EVENT_TEXT_MAX - TAIL_TEXT_MAX)
        return;
    write_out(writer, *waiting);
    *waiting = 0;
}

/* Takes what was put up to now from all rings, in the order of time. */
static void collect(struct trace_writer *writer, uint64_t *waiting)
{
    struct trace *trace = writer->trace;
    size_t count = 0;

    for (uint32_t i = 0; i < trace->ring_count; i++) {
        struct trace_ring *ring = &trace->rings[i];
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);

        for (; ring->picked != head; ring->picked++) {
            const struct trace_event *event = &ring->events[ring->picked & (trace->ring_events - 1)];

            writer->picks[count++] = (struct trace_pick){event->ts_ns, event->dur_ns, event};
        }
    }
    sort_picks(writer->picks, count);
    for (size_t i = 0; i < count; i++) {
        make_room(writer, waiting);
        if (writer->dead) {
            atomic_fetch_add_explicit(&writer->discarded, 1, memory_order_relaxed);
            continue;
        }
        trace_tracks_event(&writer->tracks, writer->picks[i].event);
        ++*waiting;
    }
    make_room(writer, waiting);
    if (!writer->dead)
        trace_tracks_pause(&writer->tracks);
    for (uint32_t i = 0; i < trace->ring_count; i++)
        atomic_store_explicit(&trace->rings[i].tail, trace->rings[i].picked, memory_order_release);
}

/*
 * Before events, so that their tracks have the names. The lock is held while a name is copied, not while it is written.
 */
static void collect_names(struct trace_writer *writer, uint64_t *waiting)
{
    struct trace_new_name name;

    for (uint32_t i = 0;; i++) {
        bool more;

        lock_take(&writer->names_lock);
        more = i < writer->new_name_count;
        if (more)
            name = writer->new_names[i];
        else
            writer->new_name_count = 0;
        lock_drop(&writer->names_lock);
        if (!more)
            return;
        make_room(writer, waiting);
        if (!writer->dead)
            trace_tracks_name(&writer->tracks, &name);
    }
}

static void writer_main(void *argument)
{
    struct trace_writer *writer = argument;
    uint64_t flush_ns = writer->trace->options.flush_ns;
    uint64_t written_ns = clock_ns(), waiting = 0;
    bool stopping;

    do {
        /* Acquire, with the release in trace_writer_stop: what was put before the stop is collected. */
        stopping = atomic_load_explicit(&writer->stop, memory_order_acquire);
        collect_names(writer, &waiting);
        collect(writer, &waiting);
        if (stopping || clock_ns() - written_ns >= flush_ns) {
            write_out(writer, waiting);
            waiting = 0;
            written_ns = clock_ns();
        }
        if (!stopping)
            wait_word(&writer->stop, 0, flush_ns < LOOK_NS ? flush_ns : LOOK_NS);
    } while (!stopping);
    if (still_ours(writer))
        close(writer->fd);
}

/* The descriptor of a regular file that nobody else writes, or -errno; -EWOULDBLOCK: somebody does. O_NONBLOCK: a FIFO
 * would stop the program. The file is emptied only after it is known to be ours. */
static int open_unshared(const char *path, struct stat *file)
{
    int fd = path_create(path, O_NONBLOCK);
    int error = 0;

    if (fd < 0)
        return fd;
    if (fstat(fd, file))
        error = -errno;
    else if (!S_ISREG(file->st_mode))
        error = -ENOTSUP;
    else if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) /* other errors: no locks here, as on some NFS */
        error = -EWOULDBLOCK;
    else if (ftruncate(fd, 0))
        error = -errno;
    if (error)
        close(fd);
    return error ? error : fd;
}

static int open_file(struct trace_writer *writer, const char *template_path)
{
    int error = config_expand_path(template_path, writer->path, sizeof(writer->path) - 16);
    struct text text = {.at = writer->path, .size = sizeof(writer->path), .length = strlen(writer->path)};

    if (error) {
        text_clean(&text, template_path, sizeof(writer->path) - 16);
        text_end(&text);
        return error;
    }
    writer->fd = open_unshared(writer->path, &writer->file);
    if (writer->fd != -EWOULDBLOCK)
        return writer->fd < 0 ? writer->fd : 0;
    text_char(&text, '.');
    text_unsigned(&text, (uint64_t)getpid());
    text_end(&text);
    log_warn("trace: another process is writing there, so this one writes %s", writer->path);
    writer->fd = open_unshared(writer->path, &writer->file);
    return writer->fd < 0 ? writer->fd : 0;
}

/* The arguments, with spaces in between. */
static void read_command(char *command, size_t size)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, command, size - 1);

    if (fd >= 0)
        close(fd);
    length = length > 0 ? length : 0;
    command[length] = '\0';
    while (length > 0 && !command[length - 1])
        length--;
    for (ssize_t i = 0; i < length; i++)
        if (!command[i])
            command[i] = ' ';
}

static void learn_surroundings(struct trace_writer *writer)
{
    struct timespec real;

    clock_gettime(CLOCK_REALTIME, &real);
    writer->tracks.base_ns = clock_ns();
    writer->real_base_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
    writer->tracks.pid = (uint32_t)getpid();
    if (gethostname(writer->host, sizeof(writer->host) - 1))
        writer->host[0] = '\0';
    read_command(writer->command, sizeof(writer->command));
}

static int start(struct trace_writer *writer)
{
    int error = open_file(writer, writer->trace->options.path);

    if (error)
        return error;
    learn_surroundings(writer);
    add_head(writer);
    writer->end = writer->out.length;
    add_tail(writer, 0, &writer->totals_written);
    error = write_all(writer->fd, writer->out.at, writer->out.length, 0);
    writer->out.length = 0;
    writer->trace->writer = writer;
    if (!error)
        error = thread_start(&writer->thread, "coissue-trace", THREAD_STACK_SMALL, writer_main, writer);
    if (error) {
        writer->trace->writer = NULL;
        close(writer->fd);
    }
    return error;
}

bool trace_writer_start(struct trace *trace, struct trace_writer *writer, struct trace_pick *picks, char *buffer)
{
    int kept = errno;
    int error;

    if (!trace->options.flush_ns)
        trace->options.flush_ns = FLUSH_DEFAULT_NS;
    writer->trace = trace;
    writer->picks = picks;
    writer->buffer = buffer;
    text_init(&writer->out, buffer, BUFFER_BYTES);
    lock_init(&writer->names_lock);
    writer->tracks.trace = trace;
    writer->tracks.out = &writer->out;
    error = start(writer);
    if (error) {
        errno = -error;
        if (error == -ENOTSUP)
            log_warn("trace: %s: not a regular file; going on without a trace", writer->path);
        else
            log_warn("trace: %s: %m; going on without a trace", writer->path);
    }
    errno = kept;
    return !error;
}

void trace_writer_stop(struct trace_writer *writer, uint64_t timeout_ns)
{
    if (atomic_exchange_explicit(&writer->stop, 1, memory_order_release))
        return; /* called twice */
    wake_word(&writer->stop, 1);
    thread_await_end(&writer->thread, timeout_ns);
}
