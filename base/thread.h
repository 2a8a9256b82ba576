/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of ours in processes of others.
 *
 * Each is detached, so that a process may end without waiting for it, takes none of the program's signals, inherits no
 * real-time priority, and cannot fail to start because the program's thread-local memory is larger than its stack. One
 * that must have come to its end before something else happens is waited for with a limit: it may be inside a driver
 * that waits for the program.
 */
#ifndef COISSUE_BASE_THREAD_H
#define COISSUE_BASE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    THREAD_NAME_MAX = 16,            /* the kernel's limit, with the NUL */
    THREAD_STACK_SMALL = 256 * 1024, /* for one that calls nothing deeper than a launch */
    THREAD_STACK_PROGRAM = 0,        /* the default: for one inside which a driver may compile */
};

enum { THREAD_NEW, THREAD_RUNS, THREAD_ENDED };

/* Zeroed is new. Must live as long as the thread, which touches it last when it ends. */
struct thread {
    _Atomic uint32_t state;
    void (*body)(void *argument);
    void *argument;
    char name[THREAD_NAME_MAX];
};

/* The name is cut to what the kernel takes. -errno of creating it; then the state is new. */
int thread_start(struct thread *thread, const char *name, size_t stack_bytes, void (*body)(void *argument),
                 void *argument);

/* Has it returned from its body? Acquire: then all that it did is seen. */
static inline bool thread_ended(struct thread *thread)
{
    return atomic_load_explicit(&thread->state, memory_order_acquire) == THREAD_ENDED;
}

/* Waits until it has ended, no longer than that. True if it has, or never began. Not from the thread itself. */
bool thread_await_end(struct thread *thread, uint64_t timeout_ns);

#endif
