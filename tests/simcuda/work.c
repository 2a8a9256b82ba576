/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations and the threads that run them.
 *
 * An operation starts when all operations that it follows are done. Those without work (`run` is NULL) are done at that
 * moment; the others go to a list of ready ones, from which worker threads take. There are never fewer workers than
 * operations that could run: an operation may spin until another one has run, so each must have a thread. A stream has
 * at most one operation that could run, so the number of threads is bounded by the streams (and the width of graphs).
 */
#include "tests/simcuda/sim.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct sim_op *ready_first, *ready_last;
static unsigned ready_count;
static unsigned idle_workers; /* those that wait, and those that are about to look for work */
static atomic_uint running;   /* operations that run right now */
static unsigned looking;      /* 1 while a worker ends its operation: it takes the next one itself */

struct sim_op *sim_op_create(size_t size, struct sim_ctx *ctx, void (*run)(struct sim_op *))
{
    struct sim_op *op = calloc(1, size);

    if (!op)
        return NULL;
    op->refs = 1;
    op->blockers = 1;
    op->ctx = ctx;
    op->run = run;
    return op;
}

struct sim_op *sim_op_ref(struct sim_op *op)
{
    op->refs++;
    return op;
}

void sim_op_unref(struct sim_op *op)
{
    if (!op || --op->refs)
        return;
    if (op->drop)
        op->drop(op);
    free(op->followers);
    free(op);
}

void sim_op_follow(struct sim_op *op, struct sim_op *earlier)
{
    if (!earlier || earlier == op || earlier->state == SIM_OP_DONE)
        return;
    if (earlier->follower_count == earlier->follower_room) {
        unsigned room = earlier->follower_room ? earlier->follower_room * 2 : 4;
        struct sim_op **followers = realloc(earlier->followers, room * sizeof(*followers));

        if (!followers) {
            /* An edge that cannot be kept would be a wrong order. Waiting here keeps the order. */
            sim_op_wait(earlier);
            return;
        }
        earlier->followers = followers;
        earlier->follower_room = room;
    }
    earlier->followers[earlier->follower_count++] = sim_op_ref(op);
    op->blockers++;
}

static void *worker(void *arg);

static void start_worker(void)
{
    sigset_t all, before;
    pthread_t thread;
    pthread_attr_t attributes;

    /* The program's signals are the program's: no handler of it may run on our threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, worker, NULL) != 0)
        sim_loud(&idle_workers, "cannot start another worker thread; kernels that wait for each other may hang");
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void make_ready(struct sim_op *op)
{
    op->state = SIM_OP_READY;
    op->next_ready = NULL;
    if (ready_last)
        ready_last->next_ready = op;
    else
        ready_first = op;
    ready_last = op;
    ready_count++;
    if (ready_count > idle_workers)
        start_worker();
    else if (ready_count > looking)
        pthread_cond_signal(&sim.work);
}

/* Ends an operation and all that become complete through it. A list instead of recursion: chains can be long. */
static void end_op(struct sim_op *op)
{
    struct sim_op *list = op;
    uint64_t now = sim_now_ns();
    bool wake = false;

    op->next_ready = NULL;
    while (list) {
        struct sim_op *current = list;

        list = current->next_ready;
        current->state = SIM_OP_DONE;
        current->done_ns = now;
        wake |= current->waited;
        for (unsigned i = 0; i < current->follower_count; i++) {
            struct sim_op *follower = current->followers[i];

            if (--follower->blockers == 0) {
                if (follower->run) {
                    make_ready(follower); /* the reference of the edge becomes that of the ready list */
                    continue;
                }
                /* Likewise, but for our list. */
                follower->next_ready = list;
                list = follower;
                continue;
            }
            sim_op_unref(follower);
        }
        current->follower_count = 0;
        if (current->stream) { /* it is the last one of that stream */
            struct sim_stream *stream = current->stream;

            current->stream = NULL;
            stream->last = NULL;
            sim_op_unref(current);
            if (stream->destroyed)
                sim_stream_free(stream);
        }
        sim_op_unref(current);
    }
    if (wake)
        pthread_cond_broadcast(&sim.done);
}

void sim_op_arm(struct sim_op *op)
{
    if (--op->blockers)
        return;
    sim_op_ref(op);
    if (op->run)
        make_ready(op);
    else
        end_op(op);
}

unsigned sim_running_ops(void)
{
    return atomic_load_explicit(&running, memory_order_relaxed);
}

static void *worker(void *arg)
{
    (void)arg;
    sim_lock();
    for (;;) {
        struct sim_op *op;

        while (!ready_first) {
            idle_workers++;
            pthread_cond_wait(&sim.work, &sim.lock);
            idle_workers--;
        }
        op = ready_first;
        ready_first = op->next_ready;
        if (!ready_first)
            ready_last = NULL;
        ready_count--;
        op->state = SIM_OP_RUNNING;
        if (op->always || atomic_load(&op->ctx->error) == CUDA_SUCCESS) {
            sim_unlock();
            atomic_fetch_add_explicit(&running, 1, memory_order_relaxed);
            op->run(op);
            atomic_fetch_sub_explicit(&running, 1, memory_order_relaxed);
            sim_lock();
        }
        idle_workers++;
        looking = 1;
        end_op(op);
        looking = 0;
        idle_workers--;
    }
    return NULL;
}

void sim_stream_set_last(struct sim_stream *stream, struct sim_op *op)
{
    if (stream->last) {
        stream->last->stream = NULL;
        sim_op_unref(stream->last);
    }
    stream->last = sim_op_ref(op);
    op->stream = stream;
}

void sim_stream_order(struct sim_stream *stream, struct sim_op *op)
{
    sim_op_follow(op, stream->last);
    if (stream->legacy) {
        for (struct sim_stream *other = stream->ctx->streams; other; other = other->next)
            if (!(other->flags & CU_STREAM_NON_BLOCKING))
                sim_op_follow(op, other->last);
    } else if (!(stream->flags & CU_STREAM_NON_BLOCKING)) {
        sim_op_follow(op, stream->ctx->legacy->last);
    }
}

void sim_stream_add(struct sim_stream *stream, struct sim_op *op)
{
    sim_stream_order(stream, op);
    sim_stream_set_last(stream, op);
    sim_op_arm(op);
    sim_op_unref(op);
}

void sim_op_wait(struct sim_op *op)
{
    if (!op || op->state == SIM_OP_DONE)
        return;
    sim_op_ref(op);
    while (op->state != SIM_OP_DONE) {
        op->waited = true;
        pthread_cond_wait(&sim.done, &sim.lock);
    }
    sim_op_unref(op);
}
