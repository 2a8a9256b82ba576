/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* Each is a value of its own, nothing else is published by them: relaxed. */
static _Atomic int log_level_now = LOG_WARN;
static _Atomic int log_fd = STDERR_FILENO;
static void (*_Atomic log_hook)(enum log_level level, const char *line);

void log_set(enum log_level level, int fd)
{
    atomic_store_explicit(&log_level_now, (int)level, memory_order_relaxed);
    atomic_store_explicit(&log_fd, fd, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    return level != LOG_OFF && (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

/* Release/acquire with write_line: what the hook uses was set up before. */
void log_set_hook(void (*hook)(enum log_level level, const char *line))
{
    atomic_store_explicit(&log_hook, hook, memory_order_release);
}

static void write_line(enum log_level level, const char *line, size_t length)
{
    void (*hook)(enum log_level, const char *) = atomic_load_explicit(&log_hook, memory_order_acquire);

    if (hook)
        hook(level, line);
    else /* nowhere to say that it failed */
        fd_write_all(atomic_load_explicit(&log_fd, memory_order_relaxed), line, length);
}

/* How often this place spoke before, counted no further than needed so that it can never wrap around. */
static int count_said(struct log_site *site)
{
    int said = atomic_load_explicit(&site->said, memory_order_relaxed);

    if (said <= LOG_REPEAT_MAX)
        said = atomic_fetch_add_explicit(&site->said, 1, memory_order_relaxed);
    return said;
}

void log_write(struct log_site *site, enum log_level level, const char *format, ...)
{
    static const char *const level_names[] = {"off", "error", "warn", "info", "debug", "trace"};
    char message[LOG_LINE_MAX], line[LOG_LINE_MAX];
    struct text text;
    int kept = errno;
    int said;
    va_list arguments;

    if (!log_enabled(level) || (unsigned int)level > LOG_TRACE)
        return;
    said = count_said(site);
    if (said > LOG_REPEAT_MAX)
        return;

    errno = kept; /* for %m */
    va_start(arguments, format);
    if (vsnprintf(message, sizeof(message), format, arguments) < 0)
        message[0] = '\0';
    va_end(arguments);

    text_init(&text, line, sizeof(line));
    text_string(&text, "coissue[");
    text_unsigned(&text, (uint64_t)getpid());
    text_string(&text, "]: ");
    text_string(&text, level_names[level]);
    text_string(&text, ": ");
    if (said == LOG_REPEAT_MAX)
        text_string(&text, "not said again: ");
    /* Names of kernels and files may hold anything; a line stays a line. 4: the dots and the line feed. */
    text_clean(&text, message, sizeof(line) - text.length - 5);
    text_char(&text, '\n');
    text_end(&text);
    write_line(level, line, text.length);
    errno = kept;
}
