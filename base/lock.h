/* SPDX-License-Identifier: Apache-2.0
 *
 * A mutex of one word, and sleeping on a word until another thread changes it.
 *
 * Why not pthread_mutex_t: the child of a fork must be able to make a lock new whatever the parent's threads were doing
 * to it, and a program that interposes pthread functions must not see ours. Neither allocates; zeroed memory is a free
 * lock. The words are private to the process, except those of wait_shared and wake_shared.
 */
#ifndef COISSUE_BASE_LOCK_H
#define COISSUE_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LOCK_FREE, LOCK_HELD, LOCK_CONTENDED }; /* contended: held, and somebody may sleep */

struct lock {
    _Atomic uint32_t word;
};

#define LOCK_INIT                                                                                                      \
    {                                                                                                                  \
        LOCK_FREE                                                                                                      \
    }

/* Makes the lock free, whoever held it. For new memory, and for the child of a fork, where no other thread is left. */
static inline void lock_init(struct lock *lock)
{
    atomic_store_explicit(&lock->word, LOCK_FREE, memory_order_relaxed);
}

/* Not for callers. */
void lock_take_slow(struct lock *lock);
void lock_wake_one(struct lock *lock);

/* Acquire: pairs with the release in lock_drop, so the new holder sees all that former holders did. */
static inline bool lock_try(struct lock *lock)
{
    uint32_t expected = LOCK_FREE;

    return atomic_compare_exchange_strong_explicit(&lock->word, &expected, LOCK_HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Not recursive. Spins for about a microsecond while the holder seems to run, then sleeps in the kernel. */
static inline void lock_take(struct lock *lock)
{
    if (!lock_try(lock))
        lock_take_slow(lock);
}

/* Release: pairs with the acquire in lock_try and lock_take_slow. Any thread may drop, not only the one that took. */
static inline void lock_drop(struct lock *lock)
{
    if (atomic_exchange_explicit(&lock->word, LOCK_FREE, memory_order_release) == LOCK_CONTENDED)
        lock_wake_one(lock);
}

/*
 * Sleeps while `*word` is `seen`. Returns 0 when it was not, or when woken, also for no reason: look again in a loop.
 * -ETIMEDOUT after `timeout_ns`; UINT64_MAX: no limit. A signal handler that ran counts as woken.
 *
 * Orders nothing by itself. The use that loses no wake-up:
 *   sleeper: seen = load(word, acquire); if (nothing to do) wait_word(word, seen, ...)
 *   waker:   publish the work; fetch_add(word, 1, release); wake_word(word, 1)
 * If the sleeper's load sees the addition, acquire/release show it the work. If not, the kernel compares the word
 * again, under a lock that wake_word also takes, and does not sleep. A waker that wants to skip the system call keeps a
 * bit of the same word for "somebody sleeps", set by the sleeper with fetch_or and seen by the waker's fetch_add: one
 * word has one order of changes, so no fence is needed.
 */
int wait_word(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);

/* Wakes at most `count` sleepers of the word, INT32_MAX for all. Returns how many. */
int wake_word(_Atomic uint32_t *word, int count);

/* The same for a word in memory that processes share. A sleeper of the one kind is not woken by the other. */
int wait_shared(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);
int wake_shared(_Atomic uint32_t *word, int count);

#endif
