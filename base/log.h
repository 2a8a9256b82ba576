/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines from inside other people's processes.
 *
 * One bounded write(2) per line, "coissue[pid]: level: text", to stderr or to COISSUE_LOG_FILE, never to stdout. No
 * allocation, no stdio, no lock; errno is kept. The same place says the same thing at most LOG_REPEAT_MAX times, then
 * once that it stops. Who logs: the function that first decides that something is wrong, and nobody above it. Nothing
 * is logged on the launch path.
 *
 * Format: lower case, exact cause, "device %d" and not "device=%d". Conversions: those of vsnprintf that do not
 * allocate (no positional arguments, no wide characters); floating point is not used.
 */
#ifndef COISSUE_BASE_LOG_H
#define COISSUE_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE }; /* order of the words in config.def */

enum { LOG_LINE_MAX = 1024, LOG_REPEAT_MAX = 16 };

/* `fd` is borrowed. Both may be called at any time; before the first call the level is LOG_WARN and fd is 2. */
void log_set(enum log_level level, int fd);
bool log_enabled(enum log_level level);

/* Tests count what was said. The hook gets the finished line; NULL restores the write. */
void log_set_hook(void (*hook)(enum log_level level, const char *line));

struct log_site {
    _Atomic int said;
};

__attribute__((format(printf, 3, 4))) void log_write(struct log_site *site, enum log_level level, const char *format,
                                                     ...);

#define log_at(level, ...)                                                                                             \
    do {                                                                                                               \
        static struct log_site site_;                                                                                  \
        if (log_enabled(level))                                                                                        \
            log_write(&site_, level, __VA_ARGS__);                                                                     \
    } while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif
