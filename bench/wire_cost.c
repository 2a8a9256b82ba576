/* SPDX-License-Identifier: Apache-2.0
 *
 * What the way of a launch from a process to the broker costs: one thread, on a core of its own, empties the rings of
 * 1, 4 and 16 processes as the broker's device thread does. It takes the bits of lanes that have something new, copies
 * each record out, checks the copy, and gives the room back. No CUDA, no scheduler.
 *
 *   wire_cost [--rounds N] [--ms N]        one JSON object on stdout
 *
 * "records per second": the processes put launches with 256 bytes of parameters into their rings as fast as they can.
 * "enqueue to seen": each process sends one such launch about every 20 us, and the consumer is awake. The process reads
 * the clock before it reserves room, the consumer when it has copied and checked the record; both readings are in it.
 *
 * The goals: 2,000,000 records per second, and a median below 1 us. They are meant for a machine with a core for the
 * consumer and enough others for the processes; with fewer cores processes take turns, and latency says little.
 */
#include "base/clock.h"
#include "wire/area.h"
#include "wire/record.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CLIENTS_MAX = 16,
    PARAMETERS = 256,
    FUNCTIONS = 100, /* that the consumer knows; a record of another one would be refused */
    AT_ONCE = 64,    /* records of a lane before the next lane has its turn */
    ROUNDS = 5,
    ROUND_MS = 300,
    PACE_NS = 20000,
    SAMPLES_MAX = 1 << 20,
    ROUNDS_MAX = 100,
};

static const int client_counts[] = {1, 4, 16};
enum { CLIENT_COUNTS = sizeof(client_counts) / sizeof(client_counts[0]) };

enum order { FULL_SPEED, PACED, STOP };

/* In memory that all processes share. */
struct shared {
    _Atomic int ready; /* processes that wait for `go` */
    _Atomic int go;
    _Atomic int order; /* enum order */
};

static struct shared *shared;
static struct wire_area *areas[CLIENTS_MAX];
static int doorbells[CLIENTS_MAX];
static struct ring rings[CLIENTS_MAX];
static double *samples;
static size_t sample_count;
static uint64_t wrong;
static bool pinned;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "wire_cost: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* To the n-th core that this process may use; -1: to all but the first, which is the consumer's. */
static bool pin(const cpu_set_t *allowed, int which)
{
    cpu_set_t set;
    int seen = 0;

    if (CPU_COUNT(allowed) < 2)
        return false;
    CPU_ZERO(&set);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, allowed))
            continue;
        if (which < 0 ? seen > 0 : seen == which)
            CPU_SET(core, &set);
        seen++;
    }
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* ---- a client ---------------------------------------------------------------------------------------------------- */

static void send_launch(struct wire_area *area, struct ring *ring, int doorbell, const unsigned char *parameters,
                        uint32_t number)
{
    uint64_t begin_ns = clock_ns();
    struct wire_record *record;

    while (!(record = ring_reserve(ring, wire_record_bytes(0, PARAMETERS), NULL)))
        sched_yield();
    *record = (struct wire_record){.kind = WIRE_LAUNCH,
                                   .parameter_bytes = PARAMETERS,
                                   .submit_ns = begin_ns,
                                   .launch = {.function = number % FUNCTIONS, .grid = {1, 1, 1}, .block = {32, 1, 1}}};
    memcpy(wire_payload(record), parameters, PARAMETERS);
    ring_commit(ring, record);
    wire_touch(area, 0, doorbell);
}

static void be_client(struct wire_area *area, int doorbell)
{
    unsigned char parameters[PARAMETERS];
    struct ring ring;
    uint64_t random = (uint64_t)getpid();

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(parameters, 'p', sizeof(parameters));
    wire_ring(area, 0, &ring);
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->go))
        sched_yield();
    for (uint32_t number = 0;; number++) {
        int order = atomic_load_explicit(&shared->order, memory_order_relaxed);

        if (order == STOP)
            return;
        if (order == PACED) {
            uint64_t next_ns;

            random = random * 6364136223846793005u + 1442695040888963407u;
            /* Not later than that after one that was late: a burst would wait for itself. */
            next_ns = clock_ns() + PACE_NS / 2 + (random >> 33) % PACE_NS;
            while (clock_ns() < next_ns)
                sched_yield();
        }
        send_launch(area, &ring, doorbell, parameters, number);
    }
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

/* As a broker must: the copy is looked at, never the ring, for the client can still write there. */
static bool plausible(const struct wire_record *record, uint32_t bytes)
{
    return record->kind == WIRE_LAUNCH && record->attribute_count <= WIRE_ATTRIBUTES_MAX &&
           record->parameter_bytes <= WIRE_PARAMETERS_MAX &&
           wire_record_bytes(record->attribute_count, record->parameter_bytes) == bytes &&
           record->launch.function < FUNCTIONS && record->launch.grid[0] && record->launch.block[0];
}

static uint64_t empty(int client, bool timed)
{
    static _Alignas(RING_UNIT) unsigned char copy[RING_UNIT * ((WIRE_RECORD_MAX + RING_UNIT - 1) / RING_UNIT)];
    const struct wire_record *record = (const struct wire_record *)copy;
    struct wire_lane *lane = &areas[client]->lane[0];
    struct ring *ring = &rings[client];
    const void *found;
    uint64_t count = 0;
    uint32_t bytes;

    while (count < AT_ONCE && (found = ring_peek(ring, &bytes))) {
        if (bytes >= sizeof(*record) && bytes <= WIRE_RECORD_MAX && ring_holds(ring, found, bytes)) {
            memcpy(copy, found, bytes);
            wrong += !plausible(record, bytes);
        } else {
            wrong++;
        }
        if (timed && sample_count < SAMPLES_MAX)
            samples[sample_count++] = (double)(clock_ns() - record->submit_ns);
        ring_pop(ring);
        count++;
    }
    if (count == 0)
        return 0;
    atomic_store_explicit(&lane->taken, atomic_load_explicit(&lane->taken, memory_order_relaxed) + count,
                          memory_order_release);
    /* It may have more: what is left needs no new touch. */
    if (count == AT_ONCE)
        atomic_fetch_or_explicit(&areas[client]->touched, 1, memory_order_relaxed);
    return count;
}

static uint64_t empty_all(int clients, bool timed)
{
    uint64_t count = 0;

    for (int i = 0; i < clients; i++) {
        if (!atomic_load_explicit(&areas[i]->touched, memory_order_relaxed))
            continue;
        /* Takes the bits; a full barrier, so what was committed before they were set is seen. */
        atomic_exchange_explicit(&areas[i]->touched, 0, memory_order_seq_cst);
        count += empty(i, timed);
    }
    return count;
}

static void consume_for(int clients, uint64_t duration_ns, bool timed, double *per_second)
{
    uint64_t begin_ns = clock_ns(), now_ns = begin_ns, count = 0;

    while (now_ns - begin_ns < duration_ns) {
        for (int i = 0; i < 64; i++)
            count += empty_all(clients, timed);
        now_ns = clock_ns();
        for (int i = 0; i < clients; i++)
            atomic_store_explicit(&areas[i]->heartbeat_ns, now_ns, memory_order_relaxed);
    }
    *per_second = (double)count * 1e9 / (double)(now_ns - begin_ns);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double part(const double *sorted, size_t count, size_t thousandth)
{
    return count ? sorted[count * thousandth / 1000] : 0;
}

static void measure(int clients, int rounds, int ms, const cpu_set_t *allowed, bool last)
{
    double rate[ROUNDS_MAX], ignored;
    pid_t children[CLIENTS_MAX];
    int status;

    atomic_store(&shared->ready, 0);
    atomic_store(&shared->go, 0);
    atomic_store(&shared->order, FULL_SPEED);
    for (int i = 0; i < clients; i++) {
        int fd, cores = CPU_COUNT(allowed) - 1;

        if (wire_area_create(&areas[i], &fd) < 0 || (doorbells[i] = eventfd(0, EFD_CLOEXEC)) < 0)
            fail("an area");
        wire_ring(areas[i], 0, &rings[i]);
        children[i] = fork();
        if (children[i] < 0)
            fail("fork");
        if (children[i] == 0) {
            struct wire_area *own;

            if (cores >= clients)
                pin(allowed, 1 + i);
            else
                pin(allowed, -1);
            if (wire_area_map(fd, &own) < 0)
                _exit(1);
            be_client(own, doorbells[i]);
            _exit(0);
        }
        close(fd);
    }
    while (atomic_load(&shared->ready) < clients)
        sched_yield();
    atomic_store(&shared->go, 1);
    wrong = 0;
    consume_for(clients, (uint64_t)ms * 500000u, false, &ignored); /* warm up */
    for (int i = 0; i < rounds; i++)
        consume_for(clients, (uint64_t)ms * 1000000u, false, &rate[i]);
    atomic_store(&shared->order, PACED);
    consume_for(clients, 20000000, false, &ignored); /* what was sent at full speed */
    sample_count = 0;
    consume_for(clients, (uint64_t)ms * 1000000u * (uint64_t)rounds, true, &ignored);
    atomic_store(&shared->order, STOP);
    for (int i = 0; i < clients; i++) {
        /* One may wait for room. */
        while (waitpid(children[i], &status, WNOHANG) == 0)
            empty_all(clients, false);
        if (status != 0)
            fail("a process ended badly");
    }
    for (int i = 0; i < clients; i++) {
        wire_area_unmap(areas[i]);
        close(doorbells[i]);
    }
    if (wrong)
        fail("records are wrong");
    qsort(rate, (size_t)rounds, sizeof(*rate), compare);
    qsort(samples, sample_count, sizeof(*samples), compare);
    printf("    {\"processes\": %d, \"records_per_second\": {\"median\": %.0f, \"min\": %.0f, \"max\": %.0f}, "
           "\"ns_enqueue_to_seen\": {\"median\": %.0f, \"p10\": %.0f, \"p90\": %.0f, \"p99\": %.0f, \"p999\": %.0f, "
           "\"count\": %zu}}%s\n",
           clients, rate[rounds / 2], rate[0], rate[rounds - 1], part(samples, sample_count, 500),
           part(samples, sample_count, 100), part(samples, sample_count, 900), part(samples, sample_count, 990),
           part(samples, sample_count, 999), sample_count, last ? "" : ",");
    fflush(stdout);
}

/* What two readings of the clock give when nothing is between them. */
static double clock_cost(void)
{
    enum { COUNT = 20001 };

    for (int i = 0; i < COUNT; i++) {
        uint64_t begin_ns = clock_ns();

        samples[i] = (double)(clock_ns() - begin_ns);
    }
    qsort(samples, COUNT, sizeof(*samples), compare);
    return samples[COUNT / 2];
}

static int number_of(const char *text, int low, int high)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*end || value < low || value > high) {
        fprintf(stderr, "wire_cost: '%s' is not a number from %d to %d\n", text, low, high);
        exit(2);
    }
    return (int)value;
}

int main(int argc, char **argv)
{
    int rounds = ROUNDS, ms = ROUND_MS;
    cpu_set_t allowed;

    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0) {
            rounds = number_of(argv[++i], 1, ROUNDS_MAX);
        } else if (i + 1 < argc && strcmp(argv[i], "--ms") == 0) {
            ms = number_of(argv[++i], 1, 10000);
        } else {
            fprintf(stderr, "usage: wire_cost [--rounds N] [--ms N]\n");
            return 2;
        }
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    samples = malloc(SAMPLES_MAX * sizeof(*samples));
    if (shared == MAP_FAILED || !samples)
        fail("memory");
    memset(samples, 0, SAMPLES_MAX * sizeof(*samples)); /* no page faults while it is measured */
    if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
        CPU_ZERO(&allowed);
    pinned = pin(&allowed, 0);
    printf("{\"benchmark\": \"wire_cost\", \"parameter_bytes\": %d, \"rounds\": %d, \"ms_per_round\": %d, "
           "\"cores\": %d, \"consumer_pinned\": %s, \"ns_of_two_clock_readings\": %.0f,\n"
           "  \"goals\": {\"records_per_second\": 2000000, \"ns_enqueue_to_seen\": 1000}, \"results\": [\n",
           PARAMETERS, rounds, ms, CPU_COUNT(&allowed), pinned ? "true" : "false", clock_cost());
    fflush(stdout); /* before a fork copies it */
    for (int i = 0; i < CLIENT_COUNTS; i++)
        measure(client_counts[i], rounds, ms, &allowed, i == CLIENT_COUNTS - 1);
    printf("]}\n");
    return 0;
}
