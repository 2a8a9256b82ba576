/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: Many threads come, trace, name tracks and go, more than there are rings, while others read totals. No
 * event is counted twice or not at all; written and lost events add up. Afterwards prints what an event costs.
 */
#include "trace/trace.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GENERATIONS = 6, THREADS = 6, RINGS = 4, EVENTS = 4000 };

static struct trace *trace;
static _Atomic int stop;
static int failed;

static void require(int truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "failed: %s\n", what);
    failed = 1;
}

static void *put_events(void *arg)
{
    uint32_t lane = (uint32_t)(uintptr_t)arg;
    struct trace_event event = {.name = "kernel", .lane = lane, .stream = 0x1000 + lane % 2 * 64, .dur_ns = 50};

    trace_name_lane(trace, lane, "lane of a thread");
    for (int i = 0; i < EVENTS; i++) {
        event.kind = i % 2 ? TRACE_ISSUE : TRACE_SUBMIT;
        event.corr = (uint64_t)lane * EVENTS + (uint64_t)i / 2 + 1;
        event.ts_ns = clock_ns();
        event.submit_ns = event.ts_ns - 100;
        trace_put(trace, &event);
        if (i % 128 == 0)
            usleep(500);
    }
    return NULL;
}

static void *read_totals(void *arg)
{
    uint64_t before = 0;

    while (!atomic_load(&stop)) {
        struct trace_totals totals;
        char summary[2048];

        trace_totals(trace, &totals);
        require(totals.seen >= before, "totals never shrink");
        before = totals.seen;
        trace_summary(trace, summary, sizeof(summary));
        trace_name_stream(trace, 0x1000, "a stream");
        usleep(500);
    }
    return NULL;
}

static uint64_t number_after(const char *text, const char *key)
{
    const char *found = strstr(text, key);

    require(found != NULL, key);
    return found ? strtoull(found + strlen(key), NULL, 10) : 0;
}

/* Events of this phase: each is a line that begins with it. Not by strstr, which sanitizers make measure the whole
 * rest. */
static uint64_t count_of(const char *text, char phase)
{
    static const char begin[] = "{\"ph\":\"";
    uint64_t count = 0;

    for (; text; text = strchr(text, '\n')) {
        text += *text == '\n';
        count += !strncmp(text, begin, sizeof(begin) - 1) && text[sizeof(begin) - 1] == phase;
    }
    return count;
}

static void check_file(const char *path, uint64_t put)
{
    static char text[64 << 20];
    FILE *file = fopen(path, "r");
    uint64_t written, lost;

    require(file != NULL, "the file is there");
    if (!file)
        return;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    written = number_after(text, "\"events\":");
    lost = number_after(text, "\"lost events\":");
    printf("%lu events: %lu written, %lu lost\n", (unsigned long)put, (unsigned long)written, (unsigned long)lost);
    require(written + lost == put, "written and lost events add up");
    require(written > put / 100, "not everything is lost");
    require(count_of(text, 'X') == written, "each written event is one slice");
    require(count_of(text, 'b') == count_of(text, 'e'), "each pair has both ends");
}

static void stress(const char *path)
{
    struct trace_options options = {.path = path, .flush_ns = 2000000, .rings = RINGS};
    pthread_t threads[THREADS], reader;
    struct trace_totals totals;
    uint64_t put = (uint64_t)GENERATIONS * THREADS * EVENTS;

    if (trace_create(&options, &trace) || pthread_create(&reader, NULL, read_totals, NULL))
        exit(77);
    for (int generation = 0; generation < GENERATIONS; generation++) {
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, put_events, (void *)(uintptr_t)(generation * THREADS + i)))
                exit(77);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    atomic_store(&stop, 1);
    pthread_join(reader, NULL);
    trace_destroy(trace, 20000000000u);
    trace_totals(trace, &totals);
    require(totals.held == put / 2 && totals.issued == put / 2, "every event is counted once");
    require(totals.hold_ns_total == 100 * totals.issued && totals.hold_ns_max == 100, "hold times add up");
    check_file(path, put);
}

static void measure(const char *path, const char *what)
{
    enum { ROUNDS = 50000, BURST = 1000 };
    struct trace_options options = {.path = path, .flush_ns = 100000000};
    struct trace_event event = {.kind = TRACE_ISSUE, .corr = 1, .name = "kernel", .submit_ns = 1};
    uint64_t spent = 0, fastest = UINT64_MAX;
    struct trace *measured;

    if (trace_create(&options, &measured))
        return;
    for (int burst = 0; burst < ROUNDS / BURST; burst++) {
        uint64_t begin = clock_ns(), took;

        for (int i = 0; i < BURST; i++) {
            event.ts_ns = begin + (uint64_t)i;
            trace_put(measured, &event);
        }
        took = clock_ns() - begin;
        spent += took;
        fastest = took < fastest ? took : fastest;
        if (path)
            usleep(10000); /* the writer empties the ring */
    }
    printf("trace_put, %s: %lu ns, fastest thousand %lu ns\n", what, (unsigned long)(spent / ROUNDS),
           (unsigned long)(fastest / BURST));
    trace_destroy(measured, 20000000000u);
}

int main(void)
{
    char folder[] = "/tmp/coissue-trace-stress-XXXXXX";
    char path[100];

    if (!mkdtemp(folder))
        return 77;
    snprintf(path, sizeof(path), "%s/trace.json", folder);
    stress(path);
    measure(NULL, "counting");
    measure(path, "to a file");
    unlink(path);
    rmdir(folder);
    return failed;
}
