/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting ourselves again, and being the one that was started.
 */
#include "demo/demo.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* argv of a child: coissue-demo --child FD probe|run TENANTS ROUNDS VERBOSE */
enum { CHILD_ARGUMENTS = 7 };

static void set(const char *name, const char *value)
{
    if (setenv(name, value, 1)) {
        complain("cannot set %s: %s", name, strerror(errno));
        _exit(1);
    }
}

/* Puts `first` in front of a list of folders. */
static void prepend(const char *name, const char *first)
{
    const char *rest = getenv(name);
    char *joined;

    if (asprintf(&joined, "%s%s%s", first, rest && *rest ? ":" : "", rest ? rest : "") < 0)
        _exit(1);
    set(name, joined);
    free(joined);
}

/* The demo itself may have been started with coissue in LD_PRELOAD; the run without it must not have it. */
static void set_preload(const char *library)
{
    const char *given = getenv("LD_PRELOAD");
    char *copy = strdup(given ? given : ""), *list = NULL, *rest = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&list, &size);

    if (!copy || !out)
        _exit(1);
    for (char *item = strtok_r(copy, ": ", &rest); item; item = strtok_r(NULL, ": ", &rest)) {
        const char *slash = strrchr(item, '/');

        if (strcmp(slash ? slash + 1 : item, "libcoissue.so") != 0)
            fprintf(out, "%s%s", ftello(out) ? ":" : "", item);
    }
    if (library)
        fprintf(out, "%s%s", ftello(out) ? ":" : "", library);
    if (fclose(out))
        _exit(1);
    if (size)
        set("LD_PRELOAD", list);
    else
        unsetenv("LD_PRELOAD");
    free(copy);
    free(list);
}

/* A file name as COISSUE_TRACE wants it: a percent sign is written twice. */
static void set_trace(const char *path)
{
    char template_path[2 * PATH_MAX];
    size_t at = 0;

    for (; *path && at < sizeof(template_path) - 3; path++) {
        if (*path == '%')
            template_path[at++] = '%';
        template_path[at++] = *path;
    }
    template_path[at] = '\0';
    set("COISSUE_TRACE", template_path);
    /* All that happens is to be counted, and short flush periods lose no events at high rates. */
    setenv("COISSUE_TRACE_FLUSH_MS", "1", 0);
}

static void become(const struct demo_options *options, const struct child *child, int fd)
{
    char fd_text[16], tenants[16], rounds[16];

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* interrupted together */
    snprintf(fd_text, sizeof(fd_text), "%d", fd);
    snprintf(tenants, sizeof(tenants), "%u", options->tenants);
    snprintf(rounds, sizeof(rounds), "%u", options->rounds);
    unsetenv("COISSUE_TRACE");
    unsetenv("COISSUE_LIBRARY");
    if (child->driver_dir)
        prepend("LD_LIBRARY_PATH", child->driver_dir);
    set_preload(child->library);
    if (child->trace)
        set_trace(child->trace);
    execl("/proc/self/exe", "coissue-demo", "--child", fd_text, child->probe ? "probe" : "run", tenants, rounds,
          options->verbose ? "verbose" : "quiet", (char *)NULL);
    complain("cannot start myself again: %s", strerror(errno));
    _exit(1);
}

static bool read_report(int fd, struct child_report *report)
{
    ssize_t got;

    do {
        got = read(fd, report, sizeof(*report));
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(*report) && report->magic == REPORT_MAGIC;
}

static const char *run_name(const struct child *child)
{
    return child->probe     ? "the probe for a device"
           : child->library ? "the run with coissue"
                            : "the run without coissue";
}

bool child_run(const struct demo_options *options, const struct child *child, struct child_report *report)
{
    bool quiet = child->probe && !options->verbose;
    int ends[2], status = 0;
    bool told;
    pid_t pid;

    memset(report, 0, sizeof(*report));
    if (options->verbose)
        complain("%s: LD_PRELOAD %s, driver from %s", run_name(child), child->library ? child->library : "without",
                 child->driver_dir ? child->driver_dir : "where the loader finds it");
    fflush(NULL);
    if (pipe(ends)) {
        complain("cannot make a pipe: %s", strerror(errno));
        return false;
    }
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        become(options, child, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        complain("cannot start a process: %s", strerror(errno));
        close(ends[0]);
        return false;
    }
    told = read_report(ends[0], report);
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && told)
        return true;
    if (!quiet && WIFSIGNALED(status))
        complain("%s was ended by signal %d (%s)", run_name(child), WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (!quiet)
        complain("%s failed with exit status %d", run_name(child), WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return false;
}

int child_main(int count, char **arguments)
{
    static struct child_report report = {.magic = REPORT_MAGIC};
    int fd, status;

    _Static_assert(sizeof(report) <= PIPE_BUF, "the report must fit into one write");
    if (count != CHILD_ARGUMENTS) {
        complain("--child is for internal use");
        return 2;
    }
    fd = atoi(arguments[2]);
    if (strcmp(arguments[3], "probe") == 0)
        status = workload_probe(strcmp(arguments[6], "verbose") == 0, &report);
    else
        status = workload_run((unsigned int)atoi(arguments[4]), (unsigned int)atoi(arguments[5]), &report);
    if (status == 0 && write(fd, &report, sizeof(report)) != (ssize_t)sizeof(report)) {
        complain("cannot report to the parent: %s", strerror(errno));
        status = 1;
    }
    return status;
}
