/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing all of something: into a pipe that takes little at a time, and into one that nobody reads.
 */
#include "base/fd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

static int ends[2];
static char sent[BYTES], came[BYTES];
static volatile sig_atomic_t alarms;

static void *read_slowly(void *argument)
{
    size_t *count = argument;
    ssize_t got;

    while (*count < BYTES && (got = read(ends[0], came + *count, BYTES - *count < 8192 ? BYTES - *count : 8192)) > 0) {
        *count += (size_t)got;
        usleep(300);
    }
    return NULL;
}

static void count_alarm(int number)
{
    alarms++;
}

/* Without SA_RESTART: a write that waits for room is interrupted, or has taken a part. */
static void interrupt_every_ms(void)
{
    struct sigaction action = {.sa_handler = count_alarm};
    struct itimerval often = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};

    cr_assert(eq(int, sigaction(SIGALRM, &action, NULL), 0));
    cr_assert(eq(int, setitimer(ITIMER_REAL, &often, NULL), 0));
}

Test(fd, everything_arrives_though_signals_interrupt_the_writes)
{
    const struct itimerval never = {0};
    sigset_t alarm_signal, before;
    pthread_t reader;
    size_t count = 0;

    for (size_t i = 0; i < BYTES; i++)
        sent[i] = (char)(i * 7 + i / 4096);
    cr_assert(eq(int, pipe(ends), 0));
    sigemptyset(&alarm_signal);
    sigaddset(&alarm_signal, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm_signal, &before); /* the reader gets none */
    cr_assert(eq(int, pthread_create(&reader, NULL, read_slowly, &count), 0));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    interrupt_every_ms();
    cr_assert(eq(int, fd_write_all(ends[1], sent, BYTES), 0));
    setitimer(ITIMER_REAL, &never, NULL);
    close(ends[1]);
    pthread_join(reader, NULL);
    cr_assert(gt(int, alarms, 0));
    cr_assert(eq(sz, count, BYTES));
    cr_assert(eq(int, memcmp(sent, came, BYTES), 0));
}

static bool pipe_signal_is_pending(void)
{
    sigset_t pending;

    cr_assert(eq(int, sigpending(&pending), 0));
    return sigismember(&pending, SIGPIPE) == 1;
}

static void open_unread(void)
{
    cr_assert(eq(int, pipe(ends), 0));
    close(ends[0]);
}

Test(fd, a_pipe_that_nobody_reads_gives_an_error_and_no_signal)
{
    sigset_t before, after;

    open_unread();
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    cr_assert(eq(int, fd_write_all(ends[1], "text", 4), -EPIPE));
    cr_assert(not(pipe_signal_is_pending()));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    cr_assert(eq(int, sigismember(&after, SIGPIPE), sigismember(&before, SIGPIPE)));
}

Test(fd, a_signal_of_the_program_that_was_pending_stays_pending)
{
    sigset_t block;

    sigemptyset(&block);
    sigaddset(&block, SIGPIPE);
    cr_assert(eq(int, sigprocmask(SIG_BLOCK, &block, NULL), 0));
    raise(SIGPIPE);
    open_unread();
    cr_assert(eq(int, fd_write_all(ends[1], "text", 4), -EPIPE));
    cr_assert(pipe_signal_is_pending());
}

Test(fd, errno_survives)
{
    errno = ENOENT;
    cr_assert(eq(int, fd_write_all(-1, "text", 4), -EBADF));
    cr_assert(eq(int, errno, ENOENT));
    open_unread();
    errno = ENOENT;
    cr_assert(eq(int, fd_write_all(ends[1], "text", 4), -EPIPE));
    cr_assert(eq(int, errno, ENOENT));
}

Test(fd, nothing_is_written_at_once)
{
    cr_assert(eq(int, fd_write_all(-1, "", 0), 0));
}
