/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens around each call: failing it on request, writing it to the trace, and the checks that all calls share.
 */
#include "tests/simcuda/sim.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    atomic_uint calls;
    unsigned nth; /* 0: never */
    bool onwards;
    CUresult code;
} plan[CU_ENTRY_COUNT];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool any_plan;
static int trace_fd = -1;
static _Atomic uint64_t call_number;

static void parse_plan(char *text)
{
    for (char *save, *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        char name[96], plus[2] = "";
        unsigned nth = 0, code = CUDA_ERROR_UNKNOWN;
        int entry, fields = sscanf(item, "%95[A-Za-z0-9_]:%u%1[+]:%u", name, &nth, plus, &code);

        if (fields == 2)
            sscanf(item, "%95[A-Za-z0-9_]:%u:%u", name, &nth, &code);
        entry = fields >= 2 ? cu_entry_find(name) : -1;
        if (entry < 0 || nth == 0) {
            fprintf(stderr, "simcuda: SIMCUDA_FAIL: '%s' is not ENTRY:N[+][:CODE] with an entry of the driver\n", item);
            continue;
        }
        plan[entry].nth = nth;
        plan[entry].onwards = plus[0] == '+';
        plan[entry].code = (CUresult)code;
        any_plan = true;
    }
}

static void read_environment(void)
{
    const char *text = getenv("SIMCUDA_FAIL"), *file = getenv("SIMCUDA_TRACE");

    if (text) {
        char *copy = strdup(text);

        if (copy)
            parse_plan(copy);
        free(copy);
    }
    if (file && *file) {
        trace_fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (trace_fd < 0)
            fprintf(stderr, "simcuda: SIMCUDA_TRACE: cannot open '%s'\n", file);
    }
}

static bool works_without_init(enum cu_entry entry)
{
    switch (entry) {
    case CU_ID_cuInit:
    case CU_ID_cuDriverGetVersion:
    case CU_ID_cuGetErrorName:
    case CU_ID_cuGetErrorString:
    case CU_ID_cuGetProcAddress:
    case CU_ID_cuGetProcAddress_v2:
    case CU_ID_cuGetExportTable:
    case CU_ID_cuThreadExchangeStreamCaptureMode:
        return true;
    default:
        return false;
    }
}

/* What an H200 answers from inside a host function; all else is 800. */
static bool allowed_in_host_function(enum cu_entry entry)
{
    bool twin;

    switch (sim_base_entry(entry, &twin)) {
    case CU_ID_cuStreamQuery:
    case CU_ID_cuStreamSynchronize:
    case CU_ID_cuStreamWaitEvent:
    case CU_ID_cuStreamIsCapturing:
    case CU_ID_cuStreamGetFlags:
    case CU_ID_cuEventQuery:
    case CU_ID_cuEventSynchronize:
    case CU_ID_cuEventRecord:
    case CU_ID_cuLaunchHostFunc:
    case CU_ID_cuMemsetD8Async:
    case CU_ID_cuMemsetD16Async:
    case CU_ID_cuMemsetD32Async:
        return true;
    default:
        return false;
    }
}

static bool planned(enum cu_entry entry, CUresult *result)
{
    unsigned count;

    if (!any_plan || !plan[entry].nth)
        return false;
    count = atomic_fetch_add_explicit(&plan[entry].calls, 1, memory_order_relaxed) + 1;
    if (count != plan[entry].nth && !(plan[entry].onwards && count > plan[entry].nth))
        return false;
    *result = plan[entry].code;
    return true;
}

bool sim_enter(struct sim_call *call, enum cu_entry entry, CUresult *result)
{
    struct sim_thread *thread = sim_thread();
    bool twin;

    pthread_once(&once, read_environment);
    call->number = trace_fd >= 0 ? atomic_fetch_add_explicit(&call_number, 1, memory_order_relaxed) : 0;
    call->per_thread_before = thread->per_thread;
    sim_base_entry(entry, &twin);
    thread->per_thread = twin;
    thread->note[0] = '\0';

    if (planned(entry, result)) {
        sim_note("failed on request");
        return false;
    }
    if (works_without_init(entry))
        return true;
    if (atomic_load_explicit(&sim.exiting, memory_order_acquire)) {
        *result = CUDA_ERROR_DEINITIALIZED;
        return false;
    }
    if (!atomic_load_explicit(&sim.initialised, memory_order_acquire) || atomic_load(&sim.forked)) {
        *result = CUDA_ERROR_NOT_INITIALIZED;
        return false;
    }
    if (thread->in_host_function && !allowed_in_host_function(entry)) {
        *result = CUDA_ERROR_NOT_PERMITTED;
        return false;
    }
    return true;
}

CUresult sim_leave(struct sim_call *call, enum cu_entry entry, CUresult result)
{
    struct sim_thread *thread = sim_thread();

    thread->per_thread = call->per_thread_before;
    if (trace_fd >= 0) {
        char line[320];
        int length =
            snprintf(line, sizeof(line), "%llu tid=%ld %s = %d%s%s\n", (unsigned long long)call->number,
                     syscall(SYS_gettid), cu_entry_name(entry), (int)result, thread->note[0] ? " " : "", thread->note);

        /* One write, so that lines of several threads and processes do not mix. A full disk is the user's to notice. */
        if (length > 0 && write(trace_fd, line, (size_t)length) < 0)
            sim_loud(&trace_fd, "cannot write the trace");
    }
    return result;
}

void sim_note(const char *format, ...)
{
    struct sim_thread *thread = sim_thread();
    size_t used = strlen(thread->note);
    va_list args;

    if (trace_fd < 0)
        return;
    if (used && used + 1 < sizeof(thread->note)) {
        thread->note[used++] = ' ';
        thread->note[used] = '\0';
    }
    va_start(args, format);
    vsnprintf(thread->note + used, sizeof(thread->note) - used, format, args);
    va_end(args);
}

void sim_loud(const void *key, const char *format, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const void *seen[1024];
    static unsigned count;
    char line[512];
    va_list args;
    bool known = false;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < count && !known; i++)
        known = seen[i] == key;
    if (!known && count < sizeof(seen) / sizeof(seen[0]))
        seen[count++] = key;
    pthread_mutex_unlock(&lock);
    if (known)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    fprintf(stderr, "simcuda: %s\n", line);
}
