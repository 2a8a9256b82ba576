/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting programs and waiting for them, for commands that do not become the program themselves.
 *
 * Signals. Who stops such a command means the program: what another process sends to us is passed on. What comes from
 * the terminal has reached the program already, which is in our group. Either way we note it, and go on only to clean
 * up.
 */
#include "cli/cli.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

static volatile sig_atomic_t child;
static volatile sig_atomic_t interrupted;

static void pass_on(int number, siginfo_t *info, void *context)
{
    int kept = errno;

    (void)context;
    if (info->si_code <= 0 && child > 0) /* SI_USER and its like; above are those that the kernel sends */
        kill((pid_t)child, number);
    if (number != SIGUSR1 && number != SIGUSR2)
        interrupted = number;
    errno = kept;
}

void cli_watch_signals(void)
{
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART}, before;

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < array_length(passed_on); i++)
        if (sigaction(passed_on[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* as nohup wants it */
            sigaction(passed_on[i], &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupted;
}

void cli_end_as_interrupted(void)
{
    int number = interrupted;

    if (!number)
        return;
    fflush(NULL);
    signal(number, SIG_DFL);
    raise(number);
}

int cli_cannot_start(const char *program, int error)
{
    cli_complain("cannot start '%s': %s", program, strerror(error));
    return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_STARTED;
}

static void place(int from, int to)
{
    if (from >= 0)
        dup2(from, to);
}

static void become(const struct cli_start *start, const sigset_t *mask, int report)
{
    int error = 0; /* what was wrong has been said */
    ssize_t wrote;

    if (!start->prepare || start->prepare(start->context)) {
        place(start->input, STDIN_FILENO);
        place(start->output, STDOUT_FILENO);
        place(start->errors, STDERR_FILENO);
        sigprocmask(SIG_SETMASK, mask, NULL);
        execvp(start->arguments[0], start->arguments);
        error = errno;
    }
    wrote = write(report, &error, sizeof(error));
    _exit(wrote == sizeof(error) ? STATUS_NOT_FOUND : STATUS_NOT_STARTED);
}

static void wait_for(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    child = 0;
}

bool cli_run_program(const struct cli_start *start, int *status)
{
    sigset_t held, before;
    int ends[2], error;
    ssize_t told;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC)) { /* stays empty if exec succeeds */
        cli_complain("cannot make a pipe: %s", strerror(errno));
        return false;
    }
    fflush(NULL);
    sigemptyset(&held);
    for (size_t i = 0; i < array_length(passed_on); i++)
        sigaddset(&held, passed_on[i]);
    sigprocmask(SIG_BLOCK, &held, &before); /* until it is known to whom they go */
    pid = fork();
    if (pid == 0)
        become(start, &before, ends[1]);
    error = errno;
    child = pid > 0 ? pid : 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        cli_complain("cannot start a process: %s", strerror(error));
        close(ends[0]);
        return false;
    }
    do
        told = read(ends[0], &error, sizeof(error));
    while (told < 0 && errno == EINTR);
    close(ends[0]);
    wait_for(pid, status);
    if (told == sizeof(error) && error)
        cli_cannot_start(start->arguments[0], error);
    return told != sizeof(error);
}
