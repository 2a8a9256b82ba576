/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel launch costs the thread that makes it: with the bare driver, and with the library preloaded in each of
 * its modes.
 *
 *   launch_cost --shim FILE [--libraries FOLDER] [--commit TEXT] [--json FILE] [--rounds N] [--bursts N] [--seconds N]
 *
 * One run measures all sides. Each variant is a process of its own, since a preload cannot be changed in one that runs,
 * and the variants take turns for some rounds, so that a slow change of the machine meets all of them. A process
 * measures 1, 2, 4 and 8 threads, each with its own stream.
 *
 * A thread launches in bursts that a lane can hold, so that nobody waits for room, and synchronises between bursts,
 * outside of the time that is measured. In every other burst each launch is timed alone: that gives the distribution,
 * with the time of two readings of the clock in it, which is given too. The others are timed as a whole: that gives the
 * mean cost, without.
 *
 * The kernels do nothing. What a launch costs the device is no subject of this program.
 */
#include "driver/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BURST = 64,            /* 64 launches with 1 KiB of parameters are 80 KiB in a lane, which holds 128 */
    BURSTS = 200,          /* by default, half of them timed launch by launch */
    ROUNDS = 3,            /* by default */
    PHASE_NS = 1000000000, /* a phase that takes longer ends early: the modes that wait may be slow */
    CHILD_SECONDS = 60,    /* a process that takes longer is ended */
    SECONDS = 150,         /* no round begins later, by default */
    THREADS_MAX = 8,
    ROUNDS_MAX = 16,
    STREAMS = 120, /* of the process that measures memory; and its kernels */
    KERNELS = 2000,
};

static const int thread_counts[] = {1, 2, 4, 8};
enum { THREAD_COUNTS = sizeof(thread_counts) / sizeof(thread_counts[0]) };

enum kernel { SMALL, LARGE, REFUSED, KERNEL_KINDS };
static const char *const kernel_names[] = {"32 bytes", "1 KiB", "refused"};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "launch_cost: %s: %s\n", what, why);
    exit(1);
}

/* ---- percentiles ------------------------------------------------------------------------------------------------- */

struct spread {
    double p10, p50, p90, p99;
};

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct spread spread_of(double *values, size_t count)
{
    if (count == 0)
        return (struct spread){0};
    qsort(values, count, sizeof(*values), compare_numbers);
    return (struct spread){values[count / 10], values[count / 2], values[count * 9 / 10], values[count * 99 / 100]};
}

/* ---- the process that is measured -------------------------------------------------------------------------------- */

static struct cu_driver cuda;

static void check(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS)
        fail(what, cu_result_name(result));
}

static CUresult call_launch(CUfunction function, CUstream stream, void **parameters)
{
#ifdef LAUNCH_COST_LINKED
    extern CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                   unsigned int, unsigned int, CUstream, void **, void **);

    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
#else
    return cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
#endif
}

struct worker {
    pthread_t id;
    CUstream stream;
    double *calls, *bursts;
    size_t call_count, burst_count;
};

static struct {
    CUcontext context;
    CUfunction functions[KERNEL_KINDS];
    int threads, bursts;
    enum kernel kernel;
    struct worker workers[THREADS_MAX];
    atomic_int arrived, round;
    atomic_bool stop;
    uint64_t begin_ns;
} run;

/* All threads begin a burst together. A barrier that sleeps would add the time of waking up to the first launches. */
static void wait_for_others(void)
{
    int round = atomic_load(&run.round);

    if (atomic_fetch_add(&run.arrived, 1) + 1 == run.threads) {
        if (now_ns() - run.begin_ns > PHASE_NS)
            atomic_store(&run.stop, true);
        atomic_store(&run.arrived, 0);
        atomic_fetch_add(&run.round, 1);
        return;
    }
    while (atomic_load(&run.round) == round)
        sched_yield();
}

static void one_burst(struct worker *worker, CUfunction function, void **parameters, CUresult expected, bool each)
{
    uint64_t times[BURST + 1];
    CUresult result = expected;

    times[0] = now_ns();
    for (int i = 0; i < BURST; i++) {
        CUresult this_result = call_launch(function, worker->stream, parameters);

        if (this_result != expected)
            result = this_result;
        if (each)
            times[i + 1] = now_ns();
    }
    if (!each)
        times[BURST] = now_ns();
    if (result != expected)
        fail("cuLaunchKernel", cu_result_name(result));
    check(cuda.cuStreamSynchronize(worker->stream), "cuStreamSynchronize");
    if (!each)
        worker->bursts[worker->burst_count++] = (double)(times[BURST] - times[0]) / BURST;
    for (int i = 0; each && i < BURST; i++)
        worker->calls[worker->call_count++] = (double)(times[i + 1] - times[i]);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    unsigned long long values[128] = {0};
    void *parameters[] = {&values[0], &values[1], &values[2], &values[3]};
    CUfunction function = run.functions[run.kernel];
    CUresult expected;

    check(cuda.cuCtxSetCurrent(run.context), "cuCtxSetCurrent");
    check(cuda.cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    expected = call_launch(function, worker->stream, parameters);
    if ((expected == CUDA_SUCCESS) != (run.kernel != REFUSED))
        fail("cuLaunchKernel", cu_result_name(expected));
    for (int i = 0; i < 4; i++) /* warm up */
        one_burst(worker, function, parameters, expected, i % 2 == 0);
    worker->call_count = worker->burst_count = 0;
    for (int i = 0; i < run.bursts; i++) {
        wait_for_others();
        if (atomic_load(&run.stop))
            break;
        one_burst(worker, function, parameters, expected, i % 2 == 0);
    }
    wait_for_others();
    check(cuda.cuStreamDestroy_v2(worker->stream), "cuStreamDestroy");
    return NULL;
}

static double *collect(size_t *count, bool calls)
{
    double *all = malloc(sizeof(*all) * ((size_t)run.threads * (size_t)run.bursts * BURST + 1));

    if (!all)
        fail("malloc", strerror(errno));
    *count = 0;
    for (int i = 0; i < run.threads; i++) {
        const struct worker *worker = &run.workers[i];
        size_t more = calls ? worker->call_count : worker->burst_count;

        memcpy(all + *count, calls ? worker->calls : worker->bursts, more * sizeof(*all));
        *count += more;
    }
    return all;
}

static void say_spread(const struct spread *spread)
{
    printf(" %.1f %.1f %.1f %.1f", spread->p10, spread->p50, spread->p90, spread->p99);
}

/* Writes a line: phase KERNEL THREADS CALLS and the two spreads. */
static void phase(int threads, enum kernel kernel, int bursts)
{
    struct spread calls, means;
    size_t call_count, burst_count;
    double *values;

    run.threads = threads;
    run.kernel = kernel;
    run.bursts = bursts;
    run.begin_ns = now_ns();
    atomic_store(&run.stop, false);
    for (int i = 0; i < threads; i++) {
        struct worker *worker = &run.workers[i];

        worker->calls = malloc(sizeof(double) * ((size_t)bursts * BURST + 8 * BURST));
        worker->bursts = malloc(sizeof(double) * ((size_t)bursts + 8));
        worker->call_count = worker->burst_count = 0;
        if (!worker->calls || !worker->bursts || pthread_create(&worker->id, NULL, work, worker))
            fail("a thread", strerror(errno));
    }
    for (int i = 0; i < threads; i++)
        pthread_join(run.workers[i].id, NULL);
    values = collect(&call_count, true);
    calls = spread_of(values, call_count);
    free(values);
    values = collect(&burst_count, false);
    means = spread_of(values, burst_count);
    free(values);
    printf("phase %d %d %zu", (int)kernel, threads, call_count);
    say_spread(&calls);
    say_spread(&means);
    printf("\n");
    for (int i = 0; i < threads; i++) {
        free(run.workers[i].calls);
        free(run.workers[i].bursts);
    }
}

/* What timing nothing gives. */
static void measure_clock(void)
{
    enum { COUNT = 20000 };
    static double values[COUNT];
    struct spread spread;

    for (int i = 0; i < COUNT; i++) {
        uint64_t begin = now_ns();

        values[i] = (double)(now_ns() - begin);
    }
    spread = spread_of(values, COUNT);
    printf("clock");
    say_spread(&spread);
    printf("\n");
}

static void *lookup(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}

static void begin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUdevice device;
    char name[128] = "";
    int version = 0;

    if (!library)
        fail("libcuda.so.1", dlerror());
    cu_driver_fill(&cuda, lookup, library);
    check(cuda.cuInit(0), "cuInit");
    check(cuda.cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuda.cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName");
    check(cuda.cuDriverGetVersion(&version), "cuDriverGetVersion");
    check(cuda.cuDevicePrimaryCtxRetain(&run.context, device), "cuDevicePrimaryCtxRetain");
    check(cuda.cuCtxSetCurrent(run.context), "cuCtxSetCurrent");
    printf("device %s\nversion %d\n", name, version);
}

/*
 * Processes differ by hundreds of nanoseconds per call for no reason of ours, more than the wrapper of mode off costs.
 * In one process both ways can be compared: linked calls go through the library, and in mode off a look-up gives the
 * driver's own function. Bursts of refused launches take turns; said is the difference, burst against burst.
 */
static void compare_ways(int pairs)
{
#ifdef LAUNCH_COST_LINKED
    double *differences = malloc(sizeof(*differences) * (size_t)pairs);
    struct spread spread;

    for (int pair = 0; pair < pairs; pair++) {
        double took[2];

        for (int turn = 0; turn < 2; turn++) {
            bool linked = (pair + turn) % 2 == 0;
            uint64_t start_ns = now_ns();

            for (int i = 0; i < BURST; i++) {
                if (linked)
                    call_launch(NULL, NULL, NULL);
                else
                    cuda.cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
            }
            took[linked] = (double)(now_ns() - start_ns) / BURST;
        }
        differences[pair] = took[1] - took[0];
    }
    spread = spread_of(differences, (size_t)pairs);
    printf("paired");
    say_spread(&spread);
    free(differences);
#else
    (void)pairs;
#endif
}

static void say_memory(void)
{
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "VmRSS:", 6) == 0 || strncmp(line, "VmData:", 7) == 0)
            fputs(line, stdout);
    if (file)
        fclose(file);
}

static int time_launches(int bursts, bool refused)
{
    static const char ptx[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry small(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) { ret; }\n"
        ".visible .entry large(.param .align 8 .b8 p[1024]) { ret; }\n";
    CUmodule module;

    begin();
    check(cuda.cuModuleLoadData(&module, ptx), "cuModuleLoadData");
    check(cuda.cuModuleGetFunction(&run.functions[SMALL], module, "small"), "cuModuleGetFunction");
    check(cuda.cuModuleGetFunction(&run.functions[LARGE], module, "large"), "cuModuleGetFunction");
    measure_clock();
    for (int i = 0; i < THREAD_COUNTS; i++)
        for (int kernel = SMALL; kernel <= LARGE; kernel++)
            phase(thread_counts[i], (enum kernel)kernel, bursts);
    if (refused) /* the driver says no at once: little but the way there is left of the time */
        phase(1, REFUSED, 2 * bursts);
    if (refused)
        compare_ways(10 * bursts);
    say_memory();
    return 0;
}

static int use_memory(void)
{
    char *text = malloc((size_t)KERNELS * 100 + 1024), *at = text;
    unsigned long long value = 0;
    void *parameters[] = {&value};
    CUstream streams[STREAMS];
    CUmodule module;

    begin();
    at += sprintf(at, ".version 8.0\n.target sm_80\n.address_size 64\n");
    for (int i = 0; i < KERNELS; i++)
        at += sprintf(at, ".visible .entry kernel_%d(.param .u64 a) { ret; }\n", i);
    check(cuda.cuModuleLoadData(&module, text), "cuModuleLoadData");
    for (int i = 0; i < STREAMS; i++)
        check(cuda.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (int i = 0; i < KERNELS; i++) {
        CUfunction function;
        char name[32];

        snprintf(name, sizeof(name), "kernel_%d", i);
        check(cuda.cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
        /* 1,000 launches for each stream in the end, more than the ring of a lane has room for. */
        for (int n = 0; n < 60; n++)
            check(call_launch(function, streams[i % STREAMS], parameters), "cuLaunchKernel");
        if (i % STREAMS == STREAMS - 1)
            check(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
    }
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
    say_memory();
    return 0;
}

/* ---- the process that compares ----------------------------------------------------------------------------------- */

struct variant {
    const char *name;
    const char *mode; /* COISSUE_MODE; NULL: no preload */
    const char *spin; /* COISSUE_SPIN_US, or NULL */
    bool linked;      /* the program calls the driver's function by its name, instead of a pointer from dlsym */
    bool refused;
};

static const struct variant variants[] = {
    {"bare driver, dlsym", NULL, NULL, false, true},    {"bare driver, linked", NULL, NULL, true, true},
    {"off, dlsym", "off", NULL, false, true},           {"off, linked", "off", NULL, true, true},
    {"full, dlsym", "full", "1000000", false, false},   {"full, linked", "full", "1000000", true, false},
    {"full, engine asleep", "full", "0", false, false}, {"gate, dlsym", "gate", "1000000", false, false},
};
enum { VARIANTS = sizeof(variants) / sizeof(variants[0]), BARE = 0, BARE_LINKED, OFF, OFF_LINKED, FULL, FULL_LINKED };

struct result {
    bool there;
    size_t calls;
    struct spread each, mean;
};

struct rounds {
    int count;
    struct result results[ROUNDS_MAX][THREAD_COUNTS][KERNEL_KINDS];
    struct spread clock[ROUNDS_MAX];
    struct spread paired[ROUNDS_MAX]; /* linked call minus looked-up call in one process */
    bool has_paired[ROUNDS_MAX];
    long held[ROUNDS_MAX];
};

struct memory {
    long resident, writable; /* KiB */
};

static struct {
    const char *shim, *libraries, *commit, *json;
    int rounds, bursts, seconds, argc;
    char **argv;
    char self[4096];
    char device[128];
    int version;
    struct rounds variants[VARIANTS];
    struct memory memory[2]; /* without, with */
} all = {.rounds = ROUNDS, .bursts = BURSTS, .seconds = SECONDS, .commit = ""};

static void clean_environment(void)
{
    static const char *const names[] = {
        "COISSUE_MODE",     "COISSUE_DISABLE", "COISSUE_TRACE",       "COISSUE_SPIN_US", "COISSUE_SUMMARY",
        "COISSUE_POLICY",   "COISSUE_WINDOW",  "COISSUE_HOLD_CAP_US", "COISSUE_LOG",     "COISSUE_SLO_MS",
        "COISSUE_LOG_FILE", "LD_PRELOAD",      "CUDA_LAUNCH_BLOCKING"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

static _Noreturn void become(const struct variant *variant, bool memory)
{
    /* Stacks of threads count as private writable memory, 8 MiB each by default: those of a driver must not hide ours.
     */
    const struct rlimit stack = {512 * 1024, RLIM_INFINITY};
    char path[4200], bursts[16], refused[2] = {variant->refused ? '1' : '0'};

    clean_environment();
    if (memory) {
        setrlimit(RLIMIT_STACK, &stack);
        setenv("CUDA_CACHE_DISABLE", "1", 1); /* both sides compile the kernels, or neither */
    }
    if (variant->mode) {
        setenv("LD_PRELOAD", all.shim, 1);
        setenv("COISSUE_MODE", variant->mode, 1);
        setenv("COISSUE_SUMMARY", "on", 1);
        if (variant->spin)
            setenv("COISSUE_SPIN_US", variant->spin, 1);
    }
    if (all.libraries)
        setenv("LD_LIBRARY_PATH", all.libraries, 1);
    snprintf(path, sizeof(path), "%s%s", all.self, variant->linked ? "_linked" : "");
    snprintf(bursts, sizeof(bursts), "%d", all.bursts);
    alarm(CHILD_SECONDS);
    if (memory)
        execl(path, path, "--memory", (char *)NULL);
    else
        execl(path, path, "--child", bursts, refused, (char *)NULL);
    fail(path, strerror(errno));
}

/* The lines that a child writes; its stderr too, for the summary of the library is there. */
static FILE *start(const struct variant *variant, bool memory, pid_t *child)
{
    int ends[2];

    fflush(stdout);
    if (pipe(ends) < 0)
        fail("pipe", strerror(errno));
    *child = fork();
    if (*child < 0)
        fail("fork", strerror(errno));
    if (*child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        become(variant, memory);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

static bool finish(FILE *lines, pid_t child, const struct variant *variant)
{
    int status;

    fclose(lines);
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "launch_cost: variant \"%s\" failed with status %#x\n", variant->name, (unsigned int)status);
        return false;
    }
    return true;
}

static int thread_index(int threads)
{
    for (int i = 0; i < THREAD_COUNTS; i++)
        if (thread_counts[i] == threads)
            return i;
    return -1;
}

/* "   123,456  100.0 %    held in the queue, ..." */
static long summary_number(const char *line)
{
    long value = 0;

    for (; *line == ' '; line++)
        ;
    for (; (*line >= '0' && *line <= '9') || *line == ','; line++)
        if (*line != ',')
            value = value * 10 + (*line - '0');
    return value;
}

static void read_line(const char *line, struct rounds *rounds)
{
    struct spread clock, paired;
    struct result result = {.there = true};
    int kernel, threads;

    if (sscanf(line, "device %127[^\n]", all.device) == 1 || sscanf(line, "version %d", &all.version) == 1)
        return;
    if (sscanf(line, "clock %lf %lf %lf %lf", &clock.p10, &clock.p50, &clock.p90, &clock.p99) == 4)
        rounds->clock[rounds->count] = clock;
    else if (sscanf(line, "paired %lf %lf %lf %lf", &paired.p10, &paired.p50, &paired.p90, &paired.p99) == 4) {
        rounds->paired[rounds->count] = paired;
        rounds->has_paired[rounds->count] = true;
    } else if (sscanf(line, "phase %d %d %zu %lf %lf %lf %lf %lf %lf %lf %lf", &kernel, &threads, &result.calls,
                      &result.each.p10, &result.each.p50, &result.each.p90, &result.each.p99, &result.mean.p10,
                      &result.mean.p50, &result.mean.p90, &result.mean.p99) == 11) {
        if (kernel >= 0 && kernel < KERNEL_KINDS && thread_index(threads) >= 0)
            rounds->results[rounds->count][thread_index(threads)][kernel] = result;
    } else if (strstr(line, "held in the queue"))
        rounds->held[rounds->count] = summary_number(line);
    else if (strncmp(line, "launch_cost", 11) == 0)
        fputs(line, stderr);
}

/* Launches that were timed alone in the round that is being measured. */
static long calls_of(const struct rounds *rounds)
{
    size_t calls = 0;

    for (int t = 0; t < THREAD_COUNTS; t++)
        for (int k = 0; k < KERNEL_KINDS; k++)
            calls += rounds->results[rounds->count][t][k].calls;
    return (long)calls;
}

static bool measure(int index)
{
    struct rounds *rounds = &all.variants[index];
    char line[512];
    pid_t child;
    FILE *lines = start(&variants[index], false, &child);

    while (lines && fgets(line, sizeof(line), lines))
        read_line(line, rounds);
    if (!lines || !finish(lines, child, &variants[index]))
        return false;
    if (index >= FULL && strcmp(variants[index].mode, "full") == 0 && rounds->held[rounds->count] < calls_of(rounds)) {
        fprintf(stderr, "launch_cost: variant \"%s\": only %ld launches were held, so its figures mean nothing\n",
                variants[index].name, rounds->held[rounds->count]);
        return false;
    }
    rounds->count++;
    return true;
}

static bool measure_memory(int index, struct memory *memory)
{
    char line[512];
    pid_t child;
    FILE *lines = start(&variants[index], true, &child);

    while (lines && fgets(line, sizeof(line), lines)) {
        sscanf(line, "VmRSS: %ld", &memory->resident);
        sscanf(line, "VmData: %ld", &memory->writable);
        if (strncmp(line, "launch_cost", 11) == 0)
            fputs(line, stderr);
    }
    return lines && finish(lines, child, &variants[index]) && memory->resident > 0;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* The median over the rounds of one percentile. `which` counts p10, p50, p90, p99. */
static double over_rounds(int variant, int threads, enum kernel kernel, bool mean, int which)
{
    const struct rounds *rounds = &all.variants[variant];
    double values[ROUNDS_MAX];
    int count = 0;

    for (int i = 0; i < rounds->count; i++) {
        const struct result *result = &rounds->results[i][thread_index(threads)][kernel];
        const struct spread *spread = mean ? &result->mean : &result->each;

        if (result->there)
            values[count++] = ((const double[]){spread->p10, spread->p50, spread->p90, spread->p99})[which];
    }
    qsort(values, (size_t)count, sizeof(*values), compare_numbers);
    return count ? values[count / 2] : 0;
}

static double clock_over_rounds(int variant)
{
    const struct rounds *rounds = &all.variants[variant];
    double values[ROUNDS_MAX];

    for (int i = 0; i < rounds->count; i++)
        values[i] = rounds->clock[i].p50;
    qsort(values, (size_t)rounds->count, sizeof(*values), compare_numbers);
    return rounds->count ? values[rounds->count / 2] : 0;
}

struct goal {
    const char *what, *unit;
    double limit, value;
    bool known;
};

enum { GOALS = 6 };

/* The median over the rounds of the median difference within a process. */
static struct goal paired_difference(const char *what, int variant)
{
    const struct rounds *rounds = &all.variants[variant];
    double values[ROUNDS_MAX];
    int count = 0;

    for (int i = 0; i < rounds->count; i++)
        if (rounds->has_paired[i])
            values[count++] = rounds->paired[i].p50;
    qsort(values, (size_t)count, sizeof(*values), compare_numbers);
    return (struct goal){what, "ns", 50, count ? values[count / 2] : 0, count > 0};
}

static struct goal cost(const char *what, int variant)
{
    return (struct goal){what, "ns", 300, over_rounds(variant, 1, SMALL, false, 1) - clock_over_rounds(variant),
                         all.variants[variant].count > 0};
}

static struct goal flatness(const char *what, int variant)
{
    double one = over_rounds(variant, 1, SMALL, false, 1), eight = over_rounds(variant, THREADS_MAX, SMALL, false, 1);

    return (struct goal){what, "times", 1.25, one > 0 ? eight / one : 0, one > 0 && eight > 0};
}

static void find_goals(struct goal goals[GOALS])
{
    bool memory_known = all.memory[0].resident > 0 && all.memory[1].resident > 0;

    goals[0] =
        paired_difference("mode off: a linked call against the driver's own function, in one process", OFF_LINKED);
    goals[1] = cost("a held launch costs, looked up by dlsym", FULL);
    goals[2] = cost("the same, linked", FULL_LINKED);
    goals[3] = flatness("a held launch with 8 threads costs, of that with 1 thread", FULL);
    goals[4] = (struct goal){"resident memory grows by, with 120 streams and 2,000 kernels", "MiB", 64,
                             (double)(all.memory[1].resident - all.memory[0].resident) / 1024, memory_known};
    goals[5] = (struct goal){"private writable memory grows by, with the same", "MiB", 64,
                             (double)(all.memory[1].writable - all.memory[0].writable) / 1024,
                             /* a simulated device maps hundreds of gigabytes, more or less of them */
                             memory_known && !all.libraries};
}

static void say_results(void)
{
    struct goal goals[GOALS];

    printf(
        "%s, driver version %d; ns per call: p10 p50 p90 p99, each timed alone (reading the clock costs %.0f); mean of "
        "%d; median of %d rounds\n",
        all.device, all.version, clock_over_rounds(BARE), BURST, all.rounds);
    for (int v = 0; v < VARIANTS; v++)
        for (int t = 0; t < THREAD_COUNTS; t++)
            for (int k = 0; k < KERNEL_KINDS; k++) {
                if (over_rounds(v, thread_counts[t], (enum kernel)k, false, 1) <= 0)
                    continue;
                printf("%-20s %d thread%s %-8s", variants[v].name, thread_counts[t], t ? "s" : " ", kernel_names[k]);
                for (int which = 0; which < 4; which++)
                    printf(" %8.0f", over_rounds(v, thread_counts[t], (enum kernel)k, false, which));
                printf("   mean %8.1f\n", over_rounds(v, thread_counts[t], (enum kernel)k, true, 1));
            }
    find_goals(goals);
    for (int i = 0; i < GOALS; i++)
        if (goals[i].known)
            printf("%s %s %.2f %s (goal: at most %.6g)\n",
                   goals[i].value <= goals[i].limit ? "met:   " : "MISSED:", goals[i].what, goals[i].value,
                   goals[i].unit, goals[i].limit);
}

static void json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 32)
            fprintf(file, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

static void json_member(FILE *file, const char *key, const char *text)
{
    json_string(file, key);
    fputs(": ", file);
    json_string(file, text);
    fputs(",\n", file);
}

static void json_spread(FILE *file, const char *key, const struct spread *spread)
{
    fprintf(file, "\"%s\": {\"p10\": %.1f, \"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f}", key, spread->p10, spread->p50,
            spread->p90, spread->p99);
}

static void read_processor(char *name, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");

    name[0] = '\0';
    while (file && !name[0] && fgets(line, sizeof(line), file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':'))
            snprintf(name, size, "%s", strchr(line, ':') + 2);
    name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
}

static void read_line_of(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "r");

    if (!file || !fgets(line, (int)size, file))
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (file)
        fclose(file);
}

static void json_head(FILE *file)
{
    char processor[256], date[64], version[32], module[256];
    struct utsname system;
    time_t now = time(NULL);

    read_processor(processor, sizeof(processor));
    uname(&system);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    snprintf(version, sizeof(version), "%d", all.version);
    fputs("{\n", file);
    json_member(file, "benchmark", "launch_cost");
    json_member(file, "date", date);
    json_member(file, "commit", all.commit);
    fputs("\"command\": \"", file);
    for (int i = 0; i < all.argc; i++) /* paths and numbers: nothing that would need to be escaped */
        fprintf(file, "%s%s", i ? " " : "", all.argv[i]);
    fputs("\",\n\"machine\": {\n", file);
    json_member(file, "gpu", all.device);
    json_member(file, "processor", processor);
    json_member(file, "kernel", system.release);
    fprintf(file, "\"cores\": %ld},\n", sysconf(_SC_NPROCESSORS_ONLN));
    json_member(file, "driver", version);
    read_line_of("/proc/driver/nvidia/version", module, sizeof(module));
    json_member(file, "driver module", module);
    json_member(file, "unit", "ns per call");
}

static void json_rounds(FILE *file, int v, bool *first)
{
    for (int round = 0; round < all.variants[v].count; round++)
        for (int t = 0; t < THREAD_COUNTS; t++)
            for (int k = 0; k < KERNEL_KINDS; k++) {
                const struct result *result = &all.variants[v].results[round][t][k];

                if (!result->there)
                    continue;
                fputs(*first ? "\n{" : ",\n{", file);
                *first = false;
                fprintf(file,
                        "\"variant\": \"%s\", \"round\": %d, \"threads\": %d, \"parameters\": \"%s\", \"calls\": %zu, ",
                        variants[v].name, round, thread_counts[t], kernel_names[k], result->calls);
                json_spread(file, "each", &result->each);
                fputs(", ", file);
                json_spread(file, "mean of burst", &result->mean);
                fputs(", ", file);
                json_spread(file, "clock", &all.variants[v].clock[round]);
                if (k == REFUSED && all.variants[v].has_paired[round]) {
                    fputs(", ", file);
                    json_spread(file, "linked minus looked up", &all.variants[v].paired[round]);
                }
                fprintf(file, ", \"held in the whole process\": %ld}", all.variants[v].held[round]);
            }
}

static void write_json(FILE *file)
{
    struct goal goals[GOALS];
    bool first = true;

    json_head(file);
    fprintf(file, "\"burst\": %d,\n\"results\": [", BURST);
    for (int v = 0; v < VARIANTS; v++)
        json_rounds(file, v, &first);
    fprintf(file,
            "],\n\"memory in KiB\": {\"bare driver\": {\"resident\": %ld, \"private writable\": %ld}, "
            "\"mode full\": {\"resident\": %ld, \"private writable\": %ld}},\n\"goals\": [",
            all.memory[0].resident, all.memory[0].writable, all.memory[1].resident, all.memory[1].writable);
    find_goals(goals);
    first = true;
    for (int i = 0; i < GOALS; i++) {
        if (!goals[i].known)
            continue;
        fprintf(file, "%s\n{\"what\": \"%s\", \"unit\": \"%s\", \"at most\": %.6g, \"value\": %.3f, \"met\": %s}",
                first ? "" : ",", goals[i].what, goals[i].unit, goals[i].limit, goals[i].value,
                goals[i].value <= goals[i].limit ? "true" : "false");
        first = false;
    }
    fputs("]\n}\n", file);
}

static void find_self(void)
{
    ssize_t length = readlink("/proc/self/exe", all.self, sizeof(all.self) - 1);

    if (length < 0)
        fail("/proc/self/exe", strerror(errno));
    all.self[length] = '\0';
}

static int number(const char *option, const char *text, int low, int high)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*end || end == text || value < low || value > high) {
        fprintf(stderr, "launch_cost: %s: \"%s\" is not a number from %d to %d\n", option, text, low, high);
        exit(2);
    }
    return (int)value;
}

static void read_options(int argc, char **argv)
{
    all.argc = argc;
    all.argv = argv;
    for (int i = 1; i < argc; i += 2) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (value && strcmp(option, "--shim") == 0)
            all.shim = realpath(value, NULL);
        else if (value && strcmp(option, "--libraries") == 0)
            all.libraries = value;
        else if (value && strcmp(option, "--commit") == 0)
            all.commit = value;
        else if (value && strcmp(option, "--json") == 0)
            all.json = value;
        else if (value && strcmp(option, "--rounds") == 0)
            all.rounds = number(option, value, 1, ROUNDS_MAX);
        else if (value && strcmp(option, "--seconds") == 0)
            all.seconds = number(option, value, 1, 100000);
        else if (value && strcmp(option, "--bursts") == 0)
            all.bursts = number(option, value, 2, 100000);
        else {
            fprintf(stderr,
                    "usage: launch_cost --shim FILE [--libraries FOLDER] [--commit TEXT] [--json FILE] "
                    "[--rounds N] [--bursts N] [--seconds N]\n%s: %s\n",
                    option, value ? "not an option" : "not an option, or its value is missing");
            exit(2);
        }
        if (strcmp(option, "--shim") == 0 && !all.shim)
            fail(value, strerror(errno));
    }
    if (!all.shim)
        fail("--shim FILE", "which libcoissue.so to measure is not given");
}

int main(int argc, char **argv)
{
    uint64_t begin_ns = now_ns();
    bool fine = true;
    FILE *file;

    if (argc == 4 && strcmp(argv[1], "--child") == 0)
        return time_launches(atoi(argv[2]), argv[3][0] == '1');
    if (argc == 2 && strcmp(argv[1], "--memory") == 0)
        return use_memory();
    read_options(argc, argv);
    find_self();
    for (int round = 0; round < all.rounds && now_ns() - begin_ns < (uint64_t)all.seconds * 1000000000u; round++)
        for (int v = 0; v < VARIANTS; v++)
            fine = measure(v) && fine;
    fine = measure_memory(BARE, &all.memory[0]) && fine;
    fine = measure_memory(FULL, &all.memory[1]) && fine;
    say_results();
    if (all.json) {
        file = fopen(all.json, "w");
        if (!file)
            fail(all.json, strerror(errno));
        write_json(file);
        if (fclose(file) != 0)
            fail(all.json, strerror(errno));
    }
    return fine ? 0 : 1;
}
