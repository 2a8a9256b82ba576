/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/text.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

static void *thread_main(void *argument)
{
    struct thread *thread = argument;

    pthread_setname_np(pthread_self(), thread->name);
    thread->body(thread->argument);
    /* Release: pairs with the acquire in thread_ended. */
    atomic_store_explicit(&thread->state, THREAD_ENDED, memory_order_release);
    wake_word(&thread->state, INT32_MAX);
    return NULL;
}

/* Signals are blocked by the caller: a new thread takes over its mask. */
static int create(struct thread *thread, size_t stack_bytes)
{
    const struct sched_param normal = {0};
    pthread_attr_t attributes;
    pthread_t id;
    int error = pthread_attr_init(&attributes);

    if (error)
        return error;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
    pthread_attr_setschedparam(&attributes, &normal);
    if (stack_bytes)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    error = pthread_create(&id, &attributes, thread_main, thread);
    pthread_attr_destroy(&attributes);
    return error;
}

int thread_start(struct thread *thread, const char *name, size_t stack_bytes, void (*body)(void *argument),
                 void *argument)
{
    struct text text;
    sigset_t all, before;
    int error;

    text_init(&text, thread->name, sizeof(thread->name));
    text_string(&text, name);
    text_end(&text);
    thread->body = body;
    thread->argument = argument;
    atomic_store_explicit(&thread->state, THREAD_RUNS, memory_order_relaxed);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = create(thread, stack_bytes);
    if (error == EINVAL && stack_bytes) /* the thread-local memory of a large program does not fit into that stack */
        error = create(thread, THREAD_STACK_PROGRAM);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        atomic_store_explicit(&thread->state, THREAD_NEW, memory_order_relaxed);
    return -error;
}

bool thread_await_end(struct thread *thread, uint64_t timeout_ns)
{
    uint64_t begin_ns = clock_ns(), waited_ns = 0;
    uint32_t state;

    while ((state = atomic_load_explicit(&thread->state, memory_order_acquire)) == THREAD_RUNS &&
           waited_ns < timeout_ns) {
        wait_word(&thread->state, THREAD_RUNS, timeout_ns - waited_ns);
        waited_ns = clock_ns() - begin_ns;
    }
    return state != THREAD_RUNS;
}
