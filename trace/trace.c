/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings, counters, and which thread has which ring.
 *
 * All memory is one mapping made by trace_create, without reservation, so that a ring that is never used costs no page.
 * It is never given back: see trace_destroy.
 */
#include "trace/trace.h"

#include "trace/private.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(struct trace_event) == 2 * CACHE_LINE, "an event is two cache lines");

enum { RINGS_DEFAULT = 64, RINGS_MAX = 4096, EVENTS_DEFAULT = 2048, EVENTS_MAX = 1 << 20 };

/* The ring of this thread. initial-exec: no call to __tls_get_addr, which could allocate, on the launch path. */
static __thread struct {
    uint64_t trace_id;       /* 0: none */
    struct trace_ring *ring; /* NULL: there was none left ... */
    uint32_t releases;       /* ... when so many had come free */
    struct trace *trace;
} slot __attribute__((tls_model("initial-exec")));

static pthread_key_t slot_key;
static bool slot_key_made;
static pthread_once_t slot_key_once = PTHREAD_ONCE_INIT;
static _Atomic uint64_t last_id;

static void release_slot(void)
{
    if (slot.ring) {
        atomic_store_explicit(&slot.ring->owned, 0, memory_order_release);
        atomic_fetch_add_explicit(&slot.trace->releases, 1, memory_order_release);
    }
    slot.trace_id = 0;
    slot.ring = NULL;
}

/* Other destructors of the ending thread may still call the driver, and so take a ring again. Then this runs again. */
static void thread_ends(void *ring)
{
    if (slot.ring == ring)
        release_slot();
}

static void make_slot_key(void)
{
    slot_key_made = !pthread_key_create(&slot_key, thread_ends);
}

/* Without a key (a process has 1,024) rings do not come back from threads that ended, and later threads have none. */
static struct trace_ring *take_ring(struct trace *trace)
{
    release_slot();
    slot.trace = trace;
    slot.trace_id = trace->id;
    slot.releases = atomic_load_explicit(&trace->releases, memory_order_acquire);
    for (uint32_t i = 0; i < trace->ring_count; i++) {
        struct trace_ring *ring = &trace->rings[i];
        uint32_t expected = 0;

        if (atomic_load_explicit(&ring->owned, memory_order_relaxed) ||
            !atomic_compare_exchange_strong_explicit(&ring->owned, &expected, 1, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        ring->tid = (uint32_t)syscall(SYS_gettid);
        slot.ring = ring;
        if (slot_key_made)
            pthread_setspecific(slot_key, ring);
        break;
    }
    return slot.ring;
}

static struct trace_ring *my_ring(struct trace *trace)
{
    if (slot.trace_id == trace->id &&
        (slot.ring || slot.releases == atomic_load_explicit(&trace->releases, memory_order_relaxed)))
        return slot.ring;
    return take_ring(trace);
}

/* `shared`: several threads write these counts. Otherwise no locked instruction is needed. */
static void add(_Atomic uint64_t *counter, uint64_t amount, bool shared)
{
    if (shared)
        atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
    else
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount,
                              memory_order_relaxed);
}

static void raise_to(_Atomic uint64_t *counter, uint64_t value)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);

    while (now < value &&
           !atomic_compare_exchange_weak_explicit(counter, &now, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

static void count_issue(struct trace_counts *counts, const struct trace_event *event, bool shared)
{
    add(&counts->issued, 1, shared);
    if (event->submit_ns && event->ts_ns > event->submit_ns) {
        add(&counts->hold_ns_total, event->ts_ns - event->submit_ns, shared);
        raise_to(&counts->hold_ns_max, event->ts_ns - event->submit_ns);
    }
}

/* Members of the widest packs that belong to this row: 2, 4, 8, ... */
static unsigned int width_row(uint32_t members)
{
    unsigned int row = members > 2 ? 31 - (unsigned int)__builtin_clz(members - 1) : 0;

    return row < TRACE_WIDTHS ? row : TRACE_WIDTHS - 1;
}

static void count_pack(struct trace_counts *counts, const struct trace_event *event, bool shared)
{
    uint32_t members = event->value[1];

    add(&counts->packed, 1, shared);
    if (event->value[2] != 1)
        return;
    add(&counts->packs, 1, shared);
    add(&counts->by_width[width_row(members)], 1, shared);
    raise_to(&counts->widest, members);
}

static void count(struct trace_counts *counts, const struct trace_event *event, bool shared)
{
    switch (event->kind) {
    case TRACE_SUBMIT:
        add(&counts->submitted, 1, shared);
        return;
    case TRACE_HOME:
        add(&counts->home, 1, shared);
        break;
    case TRACE_ISSUE:
        count_issue(counts, event, shared);
        if (event->value[0])
            count_pack(counts, event, shared);
        break;
    case TRACE_OP:
        add(&counts->ops, 1, shared);
        return;
    case TRACE_FLUSH:
        add(&counts->flushes, 1, shared);
        return;
    case TRACE_REWRITE:
        if (event->value[0] < TRACE_REFUSALS_MAX)
            add(&counts->by_refusal[event->value[0]], 1, shared);
        return;
    default:
        return;
    }
    if (event->reason < TRACE_REASONS_MAX)
        add(&counts->by_reason[event->reason], 1, shared);
}

void trace_put(struct trace *trace, const struct trace_event *event)
{
    struct trace_ring *ring;
    struct trace_event *place;
    uint64_t head;

    if (!trace)
        return;
    ring = my_ring(trace);
    if (!ring) {
        count(&trace->overflow, event, true);
        if (trace->writer)
            add(&trace->overflow.lost, 1, true);
        return;
    }
    count(&ring->counts, event, false);
    if (!ring->events)
        return;

    head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - ring->tail_seen >= trace->ring_events) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - ring->tail_seen >= trace->ring_events) {
            add(&ring->counts.lost, 1, false);
            return;
        }
    }
    place = &ring->events[head & (trace->ring_events - 1)];
    *place = *event;
    place->tid = ring->tid;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_packs(const struct trace_counts *counts, struct trace_totals *totals)
{
    totals->packs += get(&counts->packs);
    totals->packed += get(&counts->packed);
    if (get(&counts->widest) > totals->widest)
        totals->widest = get(&counts->widest);
    for (int i = 0; i < TRACE_WIDTHS; i++)
        totals->by_width[i] += get(&counts->by_width[i]);
    for (int i = 0; i < TRACE_REFUSALS_MAX; i++) {
        uint64_t rewrites = get(&counts->by_refusal[i]);

        totals->by_refusal[i] += rewrites;
        *(i ? &totals->refused : &totals->rewritten) += rewrites;
    }
}

static void add_counts(const struct trace *trace, const struct trace_counts *counts, struct trace_totals *totals)
{
    uint64_t *const kinds[WENT_COUNT] = {&totals->alone, &totals->coscheduled, &totals->coalesced};

    totals->seen += get(&counts->submitted) + get(&counts->home);
    totals->held += get(&counts->submitted);
    totals->issued += get(&counts->issued);
    totals->ops += get(&counts->ops);
    totals->flushes += get(&counts->flushes);
    totals->lost += get(&counts->lost);
    totals->hold_ns_total += get(&counts->hold_ns_total);
    if (get(&counts->hold_ns_max) > totals->hold_ns_max)
        totals->hold_ns_max = get(&counts->hold_ns_max);
    for (int i = 0; i < TRACE_REASONS_MAX; i++) {
        uint64_t launches = get(&counts->by_reason[i]);

        totals->by_reason[i] += launches;
        if (kinds[trace->went[i]])
            *kinds[trace->went[i]] += launches;
    }
    add_packs(counts, totals);
}

void trace_totals(const struct trace *trace, struct trace_totals *totals)
{
    memset(totals, 0, sizeof(*totals));
    for (uint32_t i = 0; i < trace->ring_count; i++)
        add_counts(trace, &trace->rings[i].counts, totals);
    add_counts(trace, &trace->overflow, totals);
    if (trace->writer)
        totals->lost += get(&trace->writer->discarded);
}

uint64_t trace_lost(const struct trace *trace)
{
    uint64_t lost = get(&trace->overflow.lost) + get(&trace->writer->discarded);

    for (uint32_t i = 0; i < trace->ring_count; i++)
        lost += get(&trace->rings[i].counts.lost);
    return lost;
}

static uint8_t went_by_name(const char *kind)
{
    static const char *const names[] = {"alone", "coschedule", "coalesce", "home"};

    for (uint8_t i = 0; kind && i < array_length(names); i++)
        if (!strcmp(kind, names[i]))
            return i;
    return WENT_ELSEWHERE;
}

static void copy_options(struct trace *trace, const struct trace_options *options)
{
    trace->options = *options;
    strncpy(trace->version, options->version ? options->version : "", sizeof(trace->version) - 1);
    strncpy(trace->device, options->device ? options->device : "", sizeof(trace->device) - 1);
    trace->options.version = trace->version;
    trace->options.device = trace->device;
    for (unsigned int i = 0; i < TRACE_REASONS_MAX; i++)
        trace->went[i] =
            i < options->reason_count && options->kind_name ? went_by_name(options->kind_name(i)) : WENT_ELSEWHERE;
}

/* The parts of the mapping, each at the start of a cache line. */
struct layout {
    size_t rings, writer, buffer, picks, events, size;
};

static size_t place_after(size_t *end, size_t bytes)
{
    size_t begin = (*end + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);

    *end = begin + bytes;
    return begin;
}

static struct layout lay_out(size_t rings, size_t events, bool file)
{
    struct layout layout = {.size = sizeof(struct trace)};

    layout.rings = place_after(&layout.size, rings * sizeof(struct trace_ring));
    if (!file)
        return layout;
    layout.writer = place_after(&layout.size, sizeof(struct trace_writer));
    layout.buffer = place_after(&layout.size, BUFFER_BYTES);
    layout.picks = place_after(&layout.size, rings * events * sizeof(struct trace_pick));
    layout.events = place_after(&layout.size, rings * events * sizeof(struct trace_event));
    return layout;
}

static void give_events(struct trace *trace, struct trace_event *events)
{
    for (uint32_t i = 0; i < trace->ring_count; i++)
        trace->rings[i].events = events ? events + (size_t)i * trace->ring_events : NULL;
}

int trace_create(const struct trace_options *options, struct trace **trace)
{
    uint32_t rings = options->rings ? options->rings : RINGS_DEFAULT;
    uint32_t events = options->ring_events ? options->ring_events : EVENTS_DEFAULT;
    bool file = options->path && *options->path;
    struct layout layout;
    struct trace *made;
    char *memory;

    if (rings > RINGS_MAX || events > EVENTS_MAX || events & (events - 1) ||
        options->reason_count > TRACE_REASONS_MAX || options->refusal_count > TRACE_REFUSALS_MAX)
        return -EINVAL;
    layout = lay_out(rings, events, file);
    memory = mmap(NULL, layout.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    pthread_once(&slot_key_once, make_slot_key);

    made = (struct trace *)memory;
    made->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    made->ring_count = rings;
    made->ring_events = events;
    made->rings = (struct trace_ring *)(memory + layout.rings);
    copy_options(made, options);
    if (file) {
        give_events(made, (struct trace_event *)(memory + layout.events));
        if (!trace_writer_start(made, (struct trace_writer *)(memory + layout.writer),
                                (struct trace_pick *)(memory + layout.picks), memory + layout.buffer))
            give_events(made, NULL);
    }
    *trace = made;
    return 0;
}

bool trace_is_written(const struct trace *trace)
{
    return trace && trace->writer;
}

void trace_destroy(struct trace *trace, uint64_t timeout_ns)
{
    if (trace && trace->writer)
        trace_writer_stop(trace->writer, timeout_ns);
}

void trace_abandon(struct trace *trace)
{
    if (!trace || !trace->writer)
        return;
    if (!thread_ended(&trace->writer->thread))
        close(trace->writer->fd);
    trace->writer = NULL;
    give_events(trace, NULL);
}

static void name_track(struct trace *trace, bool is_stream, uint64_t id, const char *name)
{
    struct trace_writer *writer = trace ? trace->writer : NULL;

    if (!writer)
        return;
    lock_take(&writer->names_lock);
    if (writer->new_name_count < NEW_NAMES_MAX) { /* beyond that a track shows its number only */
        struct trace_new_name *new_name = &writer->new_names[writer->new_name_count++];

        new_name->is_stream = is_stream;
        new_name->id = id;
        strncpy(new_name->name, name, TRACE_NAME_MAX);
        new_name->name[TRACE_NAME_MAX] = '\0';
    }
    lock_drop(&writer->names_lock);
}

void trace_name_lane(struct trace *trace, uint32_t lane, const char *name)
{
    name_track(trace, false, lane, name);
}

void trace_name_stream(struct trace *trace, uint64_t stream, const char *name)
{
    name_track(trace, true, stream, name);
}
