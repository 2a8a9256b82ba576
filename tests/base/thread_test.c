/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of ours in processes of others.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

/* More than the small stack: what a program with large thread-local arrays does to every stack of its process. */
static __thread char large[THREAD_STACK_SMALL * 2];

static struct thread thread;
static _Atomic uint32_t gate;
static struct {
    sigset_t blocked;
    int policy;
    char name[THREAD_NAME_MAX];
    void *argument;
} seen;

static void look(void *argument)
{
    struct sched_param parameters;

    large[0] = 1;
    pthread_sigmask(SIG_SETMASK, NULL, &seen.blocked);
    pthread_getschedparam(pthread_self(), &seen.policy, &parameters);
    pthread_getname_np(pthread_self(), seen.name, sizeof(seen.name));
    seen.argument = argument;
}

static void stay(void *argument)
{
    while (!atomic_load(&gate))
        wait_word(&gate, 0, UINT64_MAX);
}

Test(thread, starts_although_the_thread_local_memory_of_the_program_exceeds_its_stack)
{
    cr_assert(eq(int, thread_start(&thread, "name", THREAD_STACK_SMALL, look, &gate), 0));
    cr_assert(thread_await_end(&thread, UINT64_MAX));
    cr_assert(eq(ptr, seen.argument, &gate));
}

Test(thread, takes_no_signal_of_the_program_and_leaves_the_mask_of_its_starter)
{
    sigset_t mine;

    cr_assert(eq(int, thread_start(&thread, "name", THREAD_STACK_PROGRAM, look, NULL), 0));
    cr_assert(thread_await_end(&thread, UINT64_MAX));
    for (int number = 1; number < 32; number++)
        if (number != SIGKILL && number != SIGSTOP)
            cr_expect(eq(int, sigismember(&seen.blocked, number), 1), "signal %d", number);
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    cr_assert(eq(int, sigismember(&mine, SIGTERM), 0));
}

Test(thread, does_not_inherit_the_scheduling_class_of_its_starter)
{
    const struct sched_param none = {0};

    /* A real-time class needs a privilege; this one does not, and is inherited just the same. */
    cr_assert(eq(int, pthread_setschedparam(pthread_self(), SCHED_BATCH, &none), 0));
    cr_assert(eq(int, thread_start(&thread, "name", THREAD_STACK_SMALL, look, NULL), 0));
    cr_assert(thread_await_end(&thread, UINT64_MAX));
    cr_assert(eq(int, seen.policy, SCHED_OTHER));
}

Test(thread, a_long_name_is_cut_to_what_the_kernel_takes)
{
    cr_assert(eq(int, thread_start(&thread, "coissue-a-long-name", THREAD_STACK_SMALL, look, NULL), 0));
    cr_assert(thread_await_end(&thread, UINT64_MAX));
    cr_assert(eq(str, seen.name, "coissue-a-long-"));
}

Test(thread, is_waited_for_no_longer_than_asked)
{
    uint64_t begin_ns = clock_ns();

    cr_assert(thread_await_end(&thread, UINT64_MAX), "one that never began");
    cr_assert(eq(int, thread_start(&thread, "name", THREAD_STACK_SMALL, stay, NULL), 0));
    cr_assert(not(thread_await_end(&thread, 20000000)));
    cr_assert(ge(u64, clock_ns() - begin_ns, 20000000));
    cr_assert(not(thread_ended(&thread)));
    atomic_store(&gate, 1);
    wake_word(&gate, INT32_MAX);
    cr_assert(thread_await_end(&thread, UINT64_MAX));
    cr_assert(thread_ended(&thread));
}
