/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines, seen as the file or pipe that they go to sees them.
 */
#include "base/log.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int reader;
static char got[65536];

/* A packet pipe keeps the borders of writes. */
static void catch_lines(enum log_level level)
{
    int ends[2];

    cr_assert(eq(int, pipe2(ends, O_DIRECT | O_NONBLOCK), 0));
    cr_assert(ge(int, fcntl(ends[0], F_SETPIPE_SZ, 64 * 4096), 0)); /* a page for each packet */
    reader = ends[0];
    log_set(level, ends[1]);
}

/* One write, or "" if there is none. */
static char *next_write(void)
{
    ssize_t length = read(reader, got, sizeof(got) - 1);

    got[length < 0 ? 0 : length] = '\0';
    return got;
}

static char *prefixed(const char *rest)
{
    static char line[2048];

    snprintf(line, sizeof(line), "coissue[%d]: %s\n", (int)getpid(), rest);
    return line;
}

Test(log, a_line_is_one_write_with_process_level_and_text)
{
    catch_lines(LOG_DEBUG);
    log_error("device %d: %s", 3, "gone");
    log_debug("fine");
    cr_assert(eq(str, next_write(), prefixed("error: device 3: gone")));
    cr_assert(eq(str, next_write(), prefixed("debug: fine")));
    cr_assert(eq(str, next_write(), ""));
}

Test(log, levels_above_the_one_set_are_silent)
{
    catch_lines(LOG_WARN);
    log_info("no");
    log_debug("no");
    log_at(LOG_TRACE, "no");
    cr_assert(eq(str, next_write(), ""));
    cr_assert(log_enabled(LOG_WARN));
    cr_assert(not(log_enabled(LOG_INFO)));
    log_warn("yes");
    cr_assert(eq(str, next_write(), prefixed("warn: yes")));
}

Test(log, at_level_off_nothing_is_written_at_all)
{
    catch_lines(LOG_OFF);
    log_error("no");
    log_at(LOG_OFF, "no");
    cr_assert(eq(str, next_write(), ""));
}

Test(log, before_anything_is_set_warnings_go_to_stderr)
{
    int ends[2];

    cr_assert(eq(int, pipe2(ends, O_DIRECT | O_NONBLOCK), 0));
    reader = ends[0];
    cr_assert(eq(int, dup2(ends[1], 2), 2));
    log_info("no");
    log_warn("yes");
    cr_assert(eq(str, next_write(), prefixed("warn: yes")));
}

static void complain(int number)
{
    log_warn("number %d", number);
}

Test(log, one_place_speaks_sixteen_times_and_then_says_that_it_stops)
{
    char expected[100];

    catch_lines(LOG_WARN);
    for (int i = 0; i < 1000; i++)
        complain(i);
    for (int i = 0; i < LOG_REPEAT_MAX; i++) {
        snprintf(expected, sizeof(expected), "warn: number %d", i);
        cr_assert(eq(str, next_write(), prefixed(expected)));
    }
    cr_assert(eq(str, next_write(), prefixed("warn: not said again: number 16")));
    cr_assert(eq(str, next_write(), ""));
    log_warn("another place");
    cr_assert(eq(str, next_write(), prefixed("warn: another place")));
}

Test(log, lines_that_are_not_written_do_not_count_as_said)
{
    catch_lines(LOG_OFF);
    for (int i = 0; i < 100; i++)
        complain(i);
    catch_lines(LOG_WARN);
    complain(7);
    cr_assert(eq(str, next_write(), prefixed("warn: number 7")));
}

Test(log, errno_survives_even_a_failed_write)
{
    log_set(LOG_WARN, -1);
    errno = ENOENT;
    log_warn("into nothing");
    cr_assert(eq(int, errno, ENOENT));
    catch_lines(LOG_WARN);
    errno = ENOENT;
    log_warn("cause: %m");
    cr_assert(eq(int, errno, ENOENT));
    cr_assert(eq(str, next_write(), prefixed("warn: cause: No such file or directory")));
}

Test(log, a_closed_pipe_does_not_kill_the_program_nor_leave_a_signal_behind)
{
    sigset_t pending;

    catch_lines(LOG_WARN);
    close(reader);
    log_warn("nobody listens");
    cr_assert(eq(int, sigpending(&pending), 0));
    cr_assert(eq(int, sigismember(&pending, SIGPIPE), 0));
}

Test(log, a_signal_of_the_program_that_was_pending_stays_pending)
{
    sigset_t block, pending;

    sigemptyset(&block);
    sigaddset(&block, SIGPIPE);
    cr_assert(eq(int, sigprocmask(SIG_BLOCK, &block, NULL), 0));
    raise(SIGPIPE);
    catch_lines(LOG_WARN);
    close(reader);
    log_warn("nobody listens");
    cr_assert(eq(int, sigpending(&pending), 0));
    cr_assert(eq(int, sigismember(&pending, SIGPIPE), 1));
}

Test(log, control_characters_cannot_make_a_second_line_or_reach_a_terminal)
{
    catch_lines(LOG_WARN);
    log_warn("a\nb\x1b[2J\xff%s", "\r");
    cr_assert(eq(str, next_write(), prefixed("warn: a?b?[2J?\?")));
}

Test(log, a_text_that_is_too_long_is_cut_and_marked)
{
    char text[5000];
    size_t length;

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    catch_lines(LOG_WARN);
    log_warn("%s", text);
    next_write();
    length = strlen(got);
    cr_assert(eq(sz, length, LOG_LINE_MAX - 1));
    cr_assert(eq(str, got + length - 5, "x...\n"));
    cr_assert(eq(str, next_write(), ""));
}

static int heard;

static void hear(enum log_level level, const char *line)
{
    cr_assert(eq(int, level, LOG_ERROR));
    cr_assert(eq(str, (char *)line, prefixed("error: told")));
    heard++;
}

Test(log, a_hook_gets_the_line_instead_of_the_file_until_it_is_taken_away)
{
    catch_lines(LOG_WARN);
    log_set_hook(hear);
    log_error("told");
    cr_assert(eq(int, heard, 1));
    cr_assert(eq(str, next_write(), ""));
    log_set_hook(NULL);
    log_error("written");
    cr_assert(eq(int, heard, 1));
    cr_assert(eq(str, next_write(), prefixed("error: written")));
}
