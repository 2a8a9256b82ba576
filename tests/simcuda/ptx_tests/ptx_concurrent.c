/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: kernels that wait for another kernel, for the host or for ever, on several host threads at once; and
 * many threads that run one instance. A plain program, so that it can run under the thread sanitizer. Usage:
 * ptx_concurrent DIRECTORY_OF_KERNELS
 */
#include "tests/simcuda/ptx/ptx.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static struct ptx_module *read_module(const char *directory, const char *name)
{
    char path[1024], error[PTX_ERROR_TEXT_MAX];
    static char text[1 << 20];
    struct ptx_module *module;
    snprintf(path, sizeof(path), "%s/%s.ptx", directory, name);
    FILE *stream = fopen(path, "rb");
    CHECK(stream, "%s: %s", path, strerror(errno));
    size_t length = fread(text, 1, sizeof(text), stream);
    fclose(stream);
    CHECK(ptx_module_create(text, length, NULL, &module, error, sizeof(error)) == 0, "%s: %s", path, error);
    return module;
}

struct job {
    struct ptx_instance *instance;
    const struct ptx_module *module;
    const char *kernel;
    struct ptx_launch launch;
    int error;
    pthread_t thread;
};

static void *run_job(void *arg)
{
    struct job *job = arg;
    struct ptx_fault fault;
    long kernel = ptx_module_find_kernel(job->module, job->kernel);
    CHECK(kernel >= 0, "%s", job->kernel);
    job->error = ptx_run(job->instance, (size_t)kernel, &job->launch, &fault);
    CHECK(job->error == 0 || job->error == -ECANCELED, "%s: %s", job->kernel, fault.text);
    return NULL;
}

static void start(struct job *job)
{
    job->launch.block[0] = job->launch.block[0] ? job->launch.block[0] : 1;
    for (int i = 0; i < 3; i++) {
        job->launch.grid[i] = job->launch.grid[i] ? job->launch.grid[i] : 1;
        job->launch.block[i] = job->launch.block[i] ? job->launch.block[i] : 1;
    }
    CHECK(pthread_create(&job->thread, NULL, run_job, job) == 0, "no thread");
}

static void finish(struct job *job)
{
    CHECK(pthread_join(job->thread, NULL) == 0, "no join");
}

static void pause_ms(long ms)
{
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

struct wait_params {
    int *flag;
    int value;
    int *out;
};

struct set_params {
    int *flag;
    int value;
};

static struct job make(const struct ptx_module *module, struct ptx_instance *instance, const char *kernel,
                       const void *params, size_t size)
{
    return (struct job){
        .module = module, .instance = instance, .kernel = kernel, .launch = {.params = params, .params_size = size}};
}

static void kernel_waits_for_kernel(const struct ptx_module *module, struct ptx_instance *instance)
{
    int flag = 0, out = 0;
    struct wait_params wait = {&flag, 5, &out};
    struct set_params set = {&flag, 5};
    struct job waiter = make(module, instance, "wait_for_flag", &wait, sizeof(wait));
    struct job setter = make(module, instance, "set_flag", &set, sizeof(set));
    start(&waiter);
    pause_ms(20);
    start(&setter);
    finish(&setter);
    finish(&waiter);
    CHECK(out == 10 && waiter.error == 0, "out %d", out);
}

static void kernel_waits_for_host(const struct ptx_module *module, struct ptx_instance *instance)
{
    int flag = 0, out = 0;
    struct wait_params wait = {&flag, 7, &out};
    struct job waiter = make(module, instance, "wait_for_flag", &wait, sizeof(wait));
    start(&waiter);
    pause_ms(10);
    __atomic_store_n(&flag, 7, __ATOMIC_RELEASE);
    finish(&waiter);
    CHECK(out == 14, "out %d", out);
}

static void endless_kernel_is_stopped(const struct ptx_module *module, struct ptx_instance *instance)
{
    int never = 0, *params = &never;
    bool stop = false;
    struct job job = make(module, instance, "for_ever", &params, sizeof(params));
    job.launch.block[0] = 256;
    job.launch.abort = &stop;
    start(&job);
    pause_ms(10);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    finish(&job);
    CHECK(job.error == -ECANCELED, "error %d", job.error);
}

struct histogram_params {
    const unsigned char *in;
    unsigned *bins;
    int n;
};

/* Atomics of several runs on the same memory; the table of constants is made by whoever comes first. */
static void many_runs_share_an_instance(const struct ptx_module *module, struct ptx_instance *instance)
{
    enum { THREADS = 4, N = 3000 };
    static unsigned char in[N];
    static unsigned bins[256];
    struct histogram_params params = {in, bins, N};
    struct job jobs[THREADS];
    for (int i = 0; i < N; i++)
        in[i] = (unsigned char)(i % 16);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = make(module, instance, i % 2 ? "histogram_shared" : "histogram_global", &params, sizeof(params));
        jobs[i].launch.block[0] = 64;
        jobs[i].launch.grid[0] = 4;
        start(&jobs[i]);
    }
    for (int i = 0; i < THREADS; i++)
        finish(&jobs[i]);
    for (int i = 0; i < 256; i++) {
        unsigned want = i < 16 ? THREADS * (N / 16 + (i < N % 16)) : 0;
        CHECK(bins[i] == want, "bin %d: %u, not %u", i, bins[i], want);
    }
}

int main(int argc, char **argv)
{
    struct ptx_instance *sync, *shared;
    CHECK(argc == 2, "usage: %s DIRECTORY_OF_KERNELS", argv[0]);
    struct ptx_module *sync_module = read_module(argv[1], "sync"), *shared_module = read_module(argv[1], "shared");
    CHECK(ptx_instance_create(sync_module, &sync) == 0 && ptx_instance_create(shared_module, &shared) == 0, "memory");
    kernel_waits_for_kernel(sync_module, sync);
    kernel_waits_for_host(sync_module, sync);
    endless_kernel_is_stopped(sync_module, sync);
    many_runs_share_an_instance(shared_module, shared);
    ptx_instance_destroy(sync);
    ptx_instance_destroy(shared);
    ptx_module_destroy(sync_module);
    ptx_module_destroy(shared_module);
    return 0;
}
