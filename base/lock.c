/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* About a microsecond of cpu_relax: as long as putting a thread to sleep and waking it costs at least. Critical
 * sections here are shorter than that, so a holder that is running is gone before the end. */
enum { SPINS = 100 };

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

static int wait_on(_Atomic uint32_t *word, int operation, uint32_t seen, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                               .tv_nsec = (long)(timeout_ns % 1000000000u)};
    int kept = errno;
    int result = 0;

    if (futex(word, operation, seen, timeout_ns == UINT64_MAX ? NULL : &timeout) < 0 && errno == ETIMEDOUT)
        result = -ETIMEDOUT;
    errno = kept;
    return result;
}

static int wake_on(_Atomic uint32_t *word, int operation, int count)
{
    int kept = errno;
    long woken = futex(word, operation, (uint32_t)count, NULL);

    errno = kept;
    return woken < 0 ? 0 : (int)woken;
}

int wait_word(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
    return wait_on(word, FUTEX_WAIT_PRIVATE, seen, timeout_ns);
}

int wake_word(_Atomic uint32_t *word, int count)
{
    return wake_on(word, FUTEX_WAKE_PRIVATE, count);
}

int wait_shared(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
    return wait_on(word, FUTEX_WAIT, seen, timeout_ns);
}

int wake_shared(_Atomic uint32_t *word, int count)
{
    return wake_on(word, FUTEX_WAKE, count);
}

void lock_take_slow(struct lock *lock)
{
    /* Do not spin when others sleep already: then the lock is truly busy, or its holder was preempted. */
    for (int i = 0; i < SPINS && atomic_load_explicit(&lock->word, memory_order_relaxed) != LOCK_CONTENDED; i++) {
        if (lock_try(lock))
            return;
        cpu_relax();
    }

    /* From here on the word is left contended, also when we get it: others may sleep, and the one wake-up too many at
     * our lock_drop is cheaper than counting them. Acquire as in lock_try. */
    while (atomic_exchange_explicit(&lock->word, LOCK_CONTENDED, memory_order_acquire) != LOCK_FREE)
        wait_word(&lock->word, LOCK_CONTENDED, UINT64_MAX);
}

/* The next holder may already have given the memory away, so this may wake a stranger, who looks again, or fail. */
void lock_wake_one(struct lock *lock)
{
    wake_word(&lock->word, 1);
}
