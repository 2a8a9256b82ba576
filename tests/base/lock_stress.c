/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: The lock excludes, wakes who sleeps for it, and is new again in the child of a fork; a word that is
 * waited for loses no wake-up, keeps its time limit and leaves errno alone; also between processes.
 */
#include "base/lock.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 40000, TURNS = 20000 };

static struct lock lock = LOCK_INIT;
static long counter; /* under the lock, not atomic on purpose */
static _Atomic uint32_t doorbell;
static _Atomic int work;

static void require(int truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static void *count_up(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 3 || !lock_try(&lock))
            lock_take(&lock);
        counter++;
        if (i % 1000 == 0)
            usleep(10); /* makes the others sleep */
        lock_drop(&lock);
    }
    return NULL;
}

static void test_exclusion(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        require(!pthread_create(&threads[i], NULL, count_up, NULL), "create a thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    require(counter == (long)THREADS * ROUNDS, "no increment under the lock is lost");
    require(lock_try(&lock), "the lock is free at the end");
    require(!lock_try(&lock), "a held lock cannot be taken");
    lock_drop(&lock);
}

static void *take_once(void *arg)
{
    errno = EILSEQ;
    lock_take(&lock);
    require(errno == EILSEQ, "errno survives a sleep in lock_take");
    lock_drop(&lock);
    return NULL;
}

static void test_sleeper(void)
{
    pthread_t thread;

    lock_take(&lock);
    require(!pthread_create(&thread, NULL, take_once, NULL), "create a thread");
    usleep(20000);
    require(atomic_load(&lock.word) == LOCK_CONTENDED, "who waits for long says so");
    lock_drop(&lock);
    pthread_join(thread, NULL);
}

static void test_fork(void)
{
    pid_t child;
    int status;

    lock_take(&lock);
    child = fork();
    if (!child) {
        lock_init(&lock);
        lock_take(&lock);
        lock_drop(&lock);
        _exit(0);
    }
    require(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a child makes the lock new");
    lock_drop(&lock);
}

/* The eventcount of lock.h, with every post waited for: a lost wake-up hangs, and the time limit finds it. */
static void *post(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        while (atomic_load_explicit(&work, memory_order_acquire))
            cpu_relax();
        atomic_store_explicit(&work, 1, memory_order_release);
        if (atomic_fetch_add_explicit(&doorbell, 2, memory_order_release) & 1)
            wake_word(&doorbell, 1);
    }
    return NULL;
}

static void test_doorbell(void)
{
    pthread_t thread;

    require(!pthread_create(&thread, NULL, post, NULL), "create a thread");
    for (int i = 0; i < TURNS; i++) {
        while (!atomic_load_explicit(&work, memory_order_acquire)) {
            uint32_t seen = atomic_fetch_or_explicit(&doorbell, 1, memory_order_acquire) | 1;

            if (!atomic_load_explicit(&work, memory_order_acquire))
                require(wait_word(&doorbell, seen, 10000000000u) == 0, "no wake-up is lost");
            atomic_fetch_and_explicit(&doorbell, ~1u, memory_order_relaxed);
        }
        atomic_store_explicit(&work, 0, memory_order_release);
    }
    pthread_join(thread, NULL);
}

static void test_time_limit(void)
{
    _Atomic uint32_t word = 5;
    uint64_t begin = clock_ns();

    errno = EILSEQ;
    require(wait_word(&word, 4, UINT64_MAX) == 0, "a word that is different is not waited for");
    require(wait_word(&word, 5, 5000000) == -ETIMEDOUT, "the limit is told");
    require(clock_ns() - begin >= 5000000, "the limit is waited for");
    require(wait_word(&word, 5, 0) == -ETIMEDOUT, "no time is no sleep");
    require(wake_word(&word, 1) == 0, "nobody sleeps, nobody is woken");
    require(errno == EILSEQ, "errno survives");
}

/* Two processes take turns: each sleeps until the other has stored the next number. */
static void test_processes(void)
{
    _Atomic uint32_t *turn = mmap(NULL, sizeof(*turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t mine, seen;
    int status;
    pid_t child;

    require(turn != MAP_FAILED, "shared memory");
    errno = EILSEQ;
    require(wait_shared(turn, 1, UINT64_MAX) == 0, "a shared word that is different is not waited for");
    require(wait_shared(turn, 0, 5000000) == -ETIMEDOUT, "the limit is told of a shared word too");
    require(wake_shared(turn, 1) == 0, "nobody sleeps on the shared word");
    require(errno == EILSEQ, "errno survives");
    child = fork();
    mine = child ? 0 : 1;
    for (uint32_t i = 0; i < TURNS; i++) {
        while ((seen = atomic_load_explicit(turn, memory_order_acquire)) % 2 != mine)
            if (wait_shared(turn, seen, 10000000000u) == -ETIMEDOUT)
                child ? require(0, "no wake-up of another process is lost") : _exit(1);
        atomic_store_explicit(turn, seen + 1, memory_order_release);
        wake_shared(turn, INT32_MAX);
    }
    if (!child)
        _exit(0);
    require(waitpid(child, &status, 0) == child && status == 0, "the other process saw all turns");
    require(atomic_load(turn) == 2 * TURNS, "all turns were taken");
    munmap(turn, sizeof(*turn));
}

int main(void)
{
    test_exclusion();
    test_sleeper();
    test_fork();
    test_doorbell();
    test_time_limit();
    test_processes();
    return 0;
}
