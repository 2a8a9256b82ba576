/* SPDX-License-Identifier: Apache-2.0
 *
 * cli/: the command `coissue`.
 *
 *   main.c     the table of sub-commands
 *   options.c  reading options, complaining
 *   library.c  where libcoissue.so is, and adding it to LD_PRELOAD
 *   process.c  starting a program and waiting for it
 *   report.c   what a verified run reports
 *   run.c      coissue run: start a program with coissue in front of it
 *   serve.c    coissue serve: make the launches of several programs
 *   verify.c   coissue verify: is a program's output the same with rewritten kernels
 *   config.c   coissue config: what the settings are
 *   doctor.c   coissue doctor: would it work here
 *   trace.c    coissue trace: a trace in numbers
 *   version.c  coissue version
 *
 * Invariants: answers go to stdout; an error is one short line on stderr that names the sub-command and what was wrong.
 * Exit status 0: done. 1: the answer is bad news. 2: the command line or a file cannot be used. `run` ends with the
 * status of its program, or 126 and 127 as a shell does if the program cannot be started.
 *
 * It may not link the engine or the shim: it is a plain program that sets variables and reads files. Nothing but doctor
 * loads a driver.
 */
#ifndef COISSUE_CLI_CLI_H
#define COISSUE_CLI_CLI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { STATUS_FINE = 0, STATUS_BAD_NEWS = 1, STATUS_USAGE = 2 };
/* As shells have it: a program that is not there, one that cannot be run, one that a signal ended. */
enum { STATUS_NOT_FOUND = 127, STATUS_NOT_STARTED = 126, STATUS_SIGNAL = 128 };

/* argv of a sub-command: `arguments[0]` is its name, NULL at the end. Each returns the exit status. */
int cli_run(int count, char **arguments);
int cli_config(int count, char **arguments);
int cli_doctor(int count, char **arguments);
int cli_serve(int count, char **arguments);
int cli_trace(int count, char **arguments);
int cli_verify(int count, char **arguments);
int cli_version(int count, char **arguments);

/* --- options.c --- */

/* "coissue WHAT: ..." on stderr; WHAT is the sub-command. */
void cli_set_command(const char *command);
__attribute__((format(printf, 1, 2))) void cli_complain(const char *format, ...);

/* An option of a sub-command. Exactly one of `flag` and `value` is set; `value` gets a pointer into argv. */
struct cli_option {
    const char *name; /* with its dashes */
    bool *flag;
    const char **value;
};

/*
 * Reads options up to the first argument that is none, or past "--". "--name value" and "--name=value" are the same;
 * the last one counts. Returns the index of the first argument that was not read, or -1 after a complaint. The table
 * ends with an empty row.
 */
int cli_options(const struct cli_option *table, int count, char **arguments);

/* False after a complaint. */
bool cli_set_variable(const char *name, const char *value);

/* Flushes stdout. False, after a complaint, if what was printed did not get out. */
bool cli_finish_output(void);

/* --- library.c --- */

/*
 * Finds libcoissue.so: `wanted` if it is not NULL, else COISSUE_LIBRARY, else beside this program, installed or in a
 * build folder. `path` (PATH_MAX bytes) gets its absolute path. False after a complaint.
 */
bool cli_find_library(const char *wanted, char *path);

/* Appends the library to LD_PRELOAD, keeping what is there. Nothing changes if it is there already. False after a
 * complaint. */
bool cli_preload(const char *library);

/* True if a word of LD_PRELOAD is a libcoissue.so. */
bool cli_is_preloaded(void);

/* Both of them: finds the library and puts it into LD_PRELOAD, unless there is one; then `wanted` must be NULL. */
bool cli_add_library(const char *wanted);

/* --- process.c --- */

/* Complains that a program did not start. Returns what a shell's exit status would be. */
int cli_cannot_start(const char *program, int error);

/* From now on signals that ask to end are noted, and passed on to the program that runs. */
void cli_watch_signals(void);
bool cli_interrupted(void);
/* Ends this process by the signal that was noted. Returns if there was none. */
void cli_end_as_interrupted(void);

struct cli_start {
    char **arguments;
    int input, output, errors; /* descriptors to use; below 0: our own */
    /* In the new process, before it becomes the program. False, after a complaint: it must not. May be NULL. */
    bool (*prepare)(void *context);
    void *context;
};

/* Starts a program and waits until it has ended; `status` is that of waitpid. False, after a complaint, if it did not
 * start. */
bool cli_run_program(const struct cli_start *start, int *status);

#endif
