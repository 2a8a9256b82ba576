/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

static int write_all(int fd, const char *bytes, size_t count)
{
    while (count) {
        ssize_t written = write(fd, bytes, count);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        if (written == 0)
            return -EIO; /* of no file that is known; but it must not be tried for ever */
        bytes += written;
        count -= (size_t)written;
    }
    return 0;
}

static bool is_pending(int number)
{
    sigset_t pending;

    sigemptyset(&pending);
    sigpending(&pending);
    return sigismember(&pending, number) == 1;
}

/* The signal is blocked meanwhile, and taken away if it came from here. One that was pending before stays. */
int fd_write_all(int fd, const void *bytes, size_t count)
{
    static const struct timespec at_once;
    sigset_t pipe_signal, before;
    int kept = errno;
    bool was_pending = is_pending(SIGPIPE);
    int error;

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    error = -pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    if (error)
        return error;
    error = write_all(fd, bytes, count);
    if (error == -EPIPE && !was_pending)
        while (sigtimedwait(&pipe_signal, NULL, &at_once) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = kept;
    return error;
}
