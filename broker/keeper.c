/* SPDX-License-Identifier: Apache-2.0
 *
 * The parent of the worker. A fault of a client's kernel takes the whole context with it, and a process does not get
 * rid of one reliably; so the worker ends, and another takes its place, with a new context. Clients come back to it.
 */
#include "broker/broker.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BRIEF_NS = 1000000000, BRIEF_MAX = 5 }; /* a worker that ends that early, so many times in a row: give up */

static volatile sig_atomic_t child;
static volatile sig_atomic_t ending;

static void pass_on(int number)
{
    ending = 1;
    if (child > 0)
        kill((pid_t)child, number);
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = pass_on};

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static void become_worker(const struct broker_options *options, pid_t parent)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a keeper that is killed leaves no worker behind */
    if (getppid() != parent)
        _exit(0);
    _exit(broker_work(options));
}

static int wait_for(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

int broker_keep(const struct broker_options *options)
{
    int brief = 0;

    watch_signals();
    while (!ending) {
        uint64_t begin_ns = clock_ns();
        pid_t parent = getpid(), pid = fork();
        int status;

        if (pid < 0) {
            log_error("no process can be started: %s", strerror(errno));
            return 1;
        }
        if (pid == 0)
            become_worker(options, parent);
        child = pid;
        if (ending)
            kill(pid, SIGTERM); /* it came between */
        status = wait_for(pid);
        child = 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) != BROKER_FAULT_STATUS)
            return WEXITSTATUS(status);
        brief = clock_ns() - begin_ns < BRIEF_NS ? brief + 1 : 0;
        if (brief >= BRIEF_MAX) {
            log_error("workers end as soon as they begin");
            return 1;
        }
        if (!ending)
            log_warn("the worker has ended by %s; another begins", WIFSIGNALED(status) ? "a signal" : "a fault");
    }
    return 0;
}
