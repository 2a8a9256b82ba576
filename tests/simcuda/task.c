/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks: what an operation of a stream or a node of a graph does on the device.
 */
#include "tests/simcuda/sim.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void sim_task_finish(struct sim_task *task)
{
    switch (task->type) {
    case SIM_TASK_KERNEL:
        free(task->kernel.params);
        free(task->kernel.pointers);
        free(task->kernel.attributes);
        break;
    case SIM_TASK_COPY:
        free(task->copy.staged);
        break;
    case SIM_TASK_GRAPH:
        sim_graph_free(task->child.graph);
        break;
    default:
        break;
    }
    memset(task, 0, sizeof(*task));
    task->type = SIM_TASK_EMPTY;
}

static void *duplicate(const void *bytes, size_t size)
{
    void *copy = malloc(size ? size : 1);

    if (copy)
        memcpy(copy, bytes, size);
    return copy;
}

CUresult sim_task_clone(struct sim_task *to, const struct sim_task *from)
{
    *to = *from;
    switch (from->type) {
    case SIM_TASK_KERNEL: {
        unsigned count = from->kernel.function->kernel->param_count;

        to->kernel.params = duplicate(from->kernel.params, from->kernel.params_size);
        to->kernel.pointers = malloc((count + 1) * sizeof(void *));
        to->kernel.attributes =
            duplicate(from->kernel.attributes, from->kernel.attribute_count * sizeof(*from->kernel.attributes));
        if (!to->kernel.params || !to->kernel.pointers || !to->kernel.attributes)
            break;
        for (unsigned i = 0; i < count; i++)
            to->kernel.pointers[i] = to->kernel.params + from->kernel.function->kernel->params[i].offset;
        return CUDA_SUCCESS;
    }
    case SIM_TASK_COPY:
        if (from->copy.staged) {
            to->copy.staged = duplicate(from->copy.staged, from->copy.width * from->copy.height * from->copy.depth);
            if (!to->copy.staged)
                break;
            to->copy.src = (uintptr_t)to->copy.staged;
        }
        return CUDA_SUCCESS;
    case SIM_TASK_GRAPH:
        to->child.graph = sim_graph_clone(from->child.graph);
        if (!to->child.graph)
            break;
        to->child.graph->is_child = true;
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
    sim_task_finish(to);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- running ---- */

static size_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
    return width && height && depth ? (depth - 1) * slice + (height - 1) * pitch + width : 0;
}

/* A program may let a copy race with a kernel that polls the memory. That is its own business, not ThreadSanitizer's.
 */
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread"))) static void device_copy(void *to, const void *from, size_t size)
{
    volatile unsigned char *t = to;
    const volatile unsigned char *f = from;

    if (t < f)
        for (size_t i = 0; i < size; i++)
            t[i] = f[i];
    else
        for (size_t i = size; i-- > 0;)
            t[i] = f[i];
}

__attribute__((no_sanitize("thread"))) static void device_fill(void *to, int value, size_t size)
{
    volatile unsigned char *t = to;

    for (size_t i = 0; i < size; i++)
        t[i] = (unsigned char)value;
}
#define DEVICE_SIDE __attribute__((no_sanitize("thread")))
#else
#define device_copy memmove
#define device_fill memset
#define DEVICE_SIDE
#endif

static void run_copy(const struct sim_task *task, struct sim_ctx *ctx)
{
    size_t from =
        extent(task->copy.width, task->copy.height, task->copy.depth, task->copy.src_pitch, task->copy.src_slice);
    size_t to =
        extent(task->copy.width, task->copy.height, task->copy.depth, task->copy.dst_pitch, task->copy.dst_slice);

    if ((!task->copy.src_plain && !sim_memory_ok(task->copy.src, from, false, NULL)) ||
        (!task->copy.dst_plain && !sim_memory_ok(task->copy.dst, to, true, NULL))) {
        sim_loud(&task->copy, "a copy met memory that was freed since it was enqueued");
        sim_context_fail(ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    for (size_t z = 0; z < task->copy.depth; z++)
        for (size_t y = 0; y < task->copy.height; y++)
            device_copy((char *)task->copy.dst + z * task->copy.dst_slice + y * task->copy.dst_pitch,
                        (const char *)task->copy.src + z * task->copy.src_slice + y * task->copy.src_pitch,
                        task->copy.width);
}

DEVICE_SIDE static void run_set(const struct sim_task *task, struct sim_ctx *ctx)
{
    size_t bytes = task->set.width * task->set.element;

    if (!sim_memory_ok(task->set.dst, extent(bytes, task->set.height, 1, task->set.pitch, 0), true, NULL)) {
        sim_loud(&task->set, "a memset met memory that was freed since it was enqueued");
        sim_context_fail(ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    for (size_t y = 0; y < task->set.height; y++) {
        char *row = (char *)task->set.dst + y * task->set.pitch;

        switch (task->set.element) {
        case 1:
            device_fill(row, (int)task->set.value, bytes);
            break;
        case 2:
            for (size_t x = 0; x < task->set.width; x++)
                ((uint16_t *)row)[x] = (uint16_t)task->set.value;
            break;
        default:
            for (size_t x = 0; x < task->set.width; x++)
                ((uint32_t *)row)[x] = task->set.value;
            break;
        }
    }
}

static void run_host(const struct sim_task *task, struct sim_ctx *ctx)
{
    struct sim_thread *thread = sim_thread();

    thread->in_host_function = true;
    if (task->host.callback)
        task->host.callback(task->host.stream, atomic_load(&ctx->error), task->host.data);
    else
        task->host.fn(task->host.data);
    thread->in_host_function = false;
}

static bool value_reached(const struct sim_task *task)
{
    /* Acquire: what was written before the flag must be visible to what follows. Kernels write it by C atomics. */
    uint64_t now = task->memop.wide ? __atomic_load_n((uint64_t *)task->memop.address, __ATOMIC_ACQUIRE)
                                    : __atomic_load_n((uint32_t *)task->memop.address, __ATOMIC_ACQUIRE);
    uint64_t want = task->memop.wide ? task->memop.value : (uint32_t)task->memop.value;

    switch (task->memop.flags) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return task->memop.wide ? (int64_t)(now - want) >= 0 : (int32_t)((uint32_t)now - (uint32_t)want) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == want;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & want) != 0;
    default:
        return task->memop.wide ? ~(now | want) != 0 : (uint32_t) ~(now | want) != 0;
    }
}

static void run_memop(const struct sim_task *task, struct sim_ctx *ctx)
{
    struct timespec pause = {0, 20000};
    unsigned looks = 0;

    if (!sim_memory_ok(task->memop.address, task->memop.wide ? 8 : 4, !task->memop.wait, NULL)) {
        sim_context_fail(ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    if (!task->memop.wait) {
        if (task->memop.wide)
            __atomic_store_n((uint64_t *)task->memop.address, task->memop.value, __ATOMIC_RELEASE);
        else
            __atomic_store_n((uint32_t *)task->memop.address, (uint32_t)task->memop.value, __ATOMIC_RELEASE);
        return;
    }
    /* The word may be another process's to write, so nothing but looking tells. Who waits for long looks less often: a
     * broker has many streams that wait. */
    while (!value_reached(task) && !__atomic_load_n(&ctx->abort, __ATOMIC_ACQUIRE)) {
        nanosleep(&pause, NULL);
        if (++looks == 32)
            pause.tv_nsec = 200000;
    }
}

static void run_free(const struct sim_task *task, struct sim_ctx *ctx)
{
    struct sim_range *range;

    SIM_GUARD;
    range = sim_range_find(task->free.address);
    if (range && range->base == task->free.address && range->type == SIM_MEM_DEVICE)
        sim_device_free(range);
    else
        sim_context_fail(ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
}

void sim_task_run(const struct sim_task *task, struct sim_ctx *ctx)
{
    switch (task->type) {
    case SIM_TASK_KERNEL:
        sim_kernel_run(task, ctx);
        break;
    case SIM_TASK_COPY:
        run_copy(task, ctx);
        break;
    case SIM_TASK_SET:
        run_set(task, ctx);
        break;
    case SIM_TASK_HOST:
        run_host(task, ctx);
        break;
    case SIM_TASK_MEMOP:
        run_memop(task, ctx);
        break;
    case SIM_TASK_FREE:
        run_free(task, ctx);
        break;
    default:
        break;
    }
}

/* ---- operations made of tasks ---- */

struct task_op {
    struct sim_op op;
    struct sim_task task;
};

static void run_task(struct sim_op *op)
{
    sim_task_run(&((struct task_op *)op)->task, op->ctx);
}

static void drop_task(struct sim_op *op)
{
    sim_task_finish(&((struct task_op *)op)->task);
}

struct sim_op *sim_op_from_task(struct sim_ctx *ctx, struct sim_task *task)
{
    struct task_op *op = (struct task_op *)sim_op_create(sizeof(*op), ctx, NULL);

    if (!op) {
        sim_task_finish(task);
        return NULL;
    }
    op->task = *task;
    if (task->type == SIM_TASK_KERNEL)
        sim_op_follow(&op->op, task->kernel.function->loading);
    op->op.drop = drop_task;
    op->op.always = task->type == SIM_TASK_HOST && task->host.callback;
    switch (task->type) {
    case SIM_TASK_EMPTY:
    case SIM_TASK_WAIT_EVENT:
    case SIM_TASK_RECORD_EVENT:
    case SIM_TASK_GRAPH:
        break;
    default:
        op->op.run = run_task;
        break;
    }
    return &op->op;
}

CUresult sim_enqueue(struct sim_stream *stream, struct sim_task *task, struct sim_op **out)
{
    struct sim_op *op;

    if (out)
        *out = NULL;
    if (stream->capture) {
        CUresult result = sim_capture_task(stream, task);

        if (result)
            sim_task_finish(task);
        return result;
    }
    op = sim_op_from_task(stream->ctx, task);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (out)
        *out = sim_op_ref(op);
    sim_stream_add(stream, op);
    return CUDA_SUCCESS;
}
