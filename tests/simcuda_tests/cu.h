/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the simulated device share. They call the driver by its exported names, linked directly, so each of
 * them can also be run against a real libcuda.so.1: what passes here should pass there.
 *
 * Exit status of a test: 0 pass, 1 fail, 77 skipped.
 */
#ifndef COISSUE_TESTS_SIMCUDA_TESTS_CU_H
#define COISSUE_TESTS_SIMCUDA_TESTS_CU_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver/cuda_api.h"
#include "driver/params.h"

#define CU_ENTRY(symbol, cls, how, key, params) CUresult symbol CU_PARAMS(params);
#include "driver/entries.def"

static int failures __attribute__((unused));

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

/* The call must answer `expected`. */
#define EXPECT(expected, call)                                                                                         \
    do {                                                                                                               \
        CUresult expect_result_ = (call);                                                                              \
        if (expect_result_ != (expected)) {                                                                            \
            fprintf(stderr, "%s:%d: %s = %d, expected %d\n", __FILE__, __LINE__, #call, (int)expect_result_,           \
                    (int)(expected));                                                                                  \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)
#define OK(call) EXPECT(CUDA_SUCCESS, call)

/* The same, but nothing after it makes sense if it fails. */
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        CUresult must_result_ = (call);                                                                                \
        if (must_result_ != CUDA_SUCCESS) {                                                                            \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, (int)must_result_);                         \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void sleep_ms(int ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&pause, NULL);
}

/* ---- the usual set-up: device 0, a context of its own, the test kernels ---- */

static CUcontext test_context __attribute__((unused));
static CUmodule test_module __attribute__((unused));

static inline char *test_file(const char *name)
{
    const char *folder = getenv("SIMCUDA_TESTS_DIR");
    char path[4096];
    FILE *file;
    char *text;
    long size;

    snprintf(path, sizeof(path), "%s/%s", folder ? folder : ".", name);
    file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "cannot open %s (is SIMCUDA_TESTS_DIR set?)\n", path);
        _exit(1);
    }
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    text = calloc(1, (size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size)
        _exit(1);
    fclose(file);
    return text;
}

static inline void set_up(void)
{
    static const char *const mixed[] = {"spin", "store", "add1", "twice_plus1", "wait_flag", "copy_int", "meet"};
    char *text = test_file("kernels.ptx");
    CUfunction function;

    alarm(120); /* nothing here takes long: a hang shall be a failure */
    setvbuf(stdout, NULL, _IOLBF, 0);
    MUST(cuInit(0));
    MUST(cuCtxCreate_v2(&test_context, 0, 0));
    MUST(cuModuleLoadData(&test_module, text));
    free(text);
    /* Lazy loading puts a function behind what is in flight when it is first got: get those that tests mix first. */
    for (size_t i = 0; i < sizeof(mixed) / sizeof(mixed[0]); i++)
        MUST(cuModuleGetFunction(&function, test_module, mixed[i]));
}

static inline CUfunction kernel(const char *name)
{
    CUfunction function;

    MUST(cuModuleGetFunction(&function, test_module, name));
    return function;
}

static inline CUstream new_stream(unsigned flags)
{
    CUstream stream;

    MUST(cuStreamCreate(&stream, flags));
    return stream;
}

static inline CUevent new_event(unsigned flags)
{
    CUevent event;

    MUST(cuEventCreate(&event, flags));
    return event;
}

static inline CUdeviceptr new_ints(int count)
{
    CUdeviceptr p;

    MUST(cuMemAlloc_v2(&p, (size_t)count * sizeof(int)));
    MUST(cuMemsetD32_v2(p, 0, (size_t)count));
    MUST(cuCtxSynchronize());
    return p;
}

/* A test program is a list of these. */
struct test {
    const char *name; /* says the behaviour */
    void (*run)(void);
};

/* Arguments choose tests by name; all without. Returns the exit status. */
static inline int run_tests(const struct test *tests, size_t count, int argc, char **argv)
{
    int failed = 0;

    for (size_t i = 0; i < count; i++) {
        bool wanted = argc < 2;
        int before = failures;

        for (int k = 1; k < argc; k++)
            wanted |= strcmp(argv[k], tests[i].name) == 0;
        if (!wanted)
            continue;
        tests[i].run();
        printf("%s %s\n", failures == before ? "ok" : "FAILED", tests[i].name);
        failed += failures != before;
    }
    return failed ? 1 : 0;
}
#define RUN_TESTS(tests, argc, argv) run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc, argv)

static inline CUresult launch1(CUfunction function, CUstream stream, void **params)
{
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static inline CUresult spin(CUstream stream, int ms)
{
    unsigned long long ns = (unsigned long long)ms * 1000000u;
    void *params[] = {&ns};

    return launch1(kernel("spin"), stream, params);
}

static inline CUresult store(CUstream stream, CUdeviceptr p, int value)
{
    void *params[] = {&p, &value};

    return launch1(kernel("store"), stream, params);
}

static inline CUresult add1(CUstream stream, CUdeviceptr p)
{
    void *params[] = {&p};

    return launch1(kernel("add1"), stream, params);
}

static inline CUresult twice_plus1(CUstream stream, CUdeviceptr p)
{
    void *params[] = {&p};

    return launch1(kernel("twice_plus1"), stream, params);
}

static inline CUresult wait_flag(CUstream stream, CUdeviceptr p, CUdeviceptr seen)
{
    void *params[] = {&p, &seen};

    return launch1(kernel("wait_flag"), stream, params);
}

static inline int read_int(CUdeviceptr p)
{
    int value = -1;

    MUST(cuMemcpyDtoH_v2(&value, p, sizeof(value)));
    return value;
}

#endif
