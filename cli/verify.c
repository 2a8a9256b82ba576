/* SPDX-License-Identifier: Apache-2.0
 *
 * coissue verify: a program runs twice, plainly and with each launch replaced by the rewritten form of its kernel for
 * one member (COISSUE_VERIFY). A rewritten kernel computes what the original computes, so outputs must be equal. What
 * the second run reports says which launches were not replaced, and why.
 *
 * All that a run leaves is in a temporary folder: stdout.0 and stderr.0 of the plain run, stdout.1 and stderr.1 of the
 * other, report.PID of each process, and log.PID if stderr is compared, because the library's lines would stand there.
 */
#include "cli/cli.h"

#include "base/base.h"
#include "base/text.h"
#include "cli/report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: coissue verify [options] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Runs PROGRAM twice: plainly, and with each of its kernels replaced by its rewritten form, which is what\n"
    "coalesced launches run. Says whether exit status and output stayed the same, how many launches were\n"
    "replaced, and why the others were not. PROGRAM must do the same each time, and print what it computed.\n"
    "Exit status 0: the same, and enough was replaced. 1: not. 2: it could not be found out.\n"
    "\n"
    "  --limit PERCENT    at least that share of launches must be replaced\n"
    "  --stderr           compare what goes to stderr, too; otherwise it is shown as it comes\n"
    "  --json FILE        write the answer to this file as well\n"
    "  --library FILE     take this libcoissue.so                  COISSUE_LIBRARY\n"
    "\n"
    "What PROGRAM prints to stdout is not shown. Both runs read stdin from its beginning if it is a file, and\n"
    "nothing otherwise. Launches that are never held, such as cooperative ones, are not counted; processes that\n"
    "end without exit handlers, as by _exit or a signal, report nothing.\n";

enum { PLAIN, REWRITTEN, RUNS };
enum { LINE_BYTES = 120 };

static const char *const run_names[RUNS] = {"plainly", "rewritten"};

/* How two outputs differ. */
struct difference {
    bool differs;
    uint64_t bytes[RUNS];
    uint64_t line, byte;             /* of the first difference, from 1; the byte counts within the line */
    char text[RUNS][LINE_BYTES * 4]; /* these lines, for people */
};

struct verification {
    char **arguments;
    const char *library, *json_path;
    bool with_errors;
    double limit; /* percent; below 0: none */
    char folder[PATH_MAX];
    off_t input_begin; /* of a stdin that can be read again; -1: it cannot */
    int null;
    int which; /* run in progress */
    int status[RUNS];
    struct difference output, errors;
    struct report report;
    FILE *json;
    char *log; /* owned */
    size_t log_size;
};

/* --- the runs --- */

static bool name_file(const struct verification *all, const char *name, int run, char *path)
{
    if (snprintf(path, PATH_MAX, "%s/%s.%d", all->folder, name, run) < PATH_MAX)
        return true;
    cli_complain("%s: the path is too long", all->folder);
    return false;
}

static int make_file(const struct verification *all, const char *name)
{
    char path[PATH_MAX];
    int fd = name_file(all, name, all->which, path) ? open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600) : -1;

    if (fd < 0)
        cli_complain("%s: %s", path, strerror(errno));
    return fd;
}

/* A template for one file for each process; percent signs of the folder's name are its own. */
static bool set_template(const struct verification *all, const char *variable, const char *name)
{
    char value[2 * PATH_MAX];
    size_t at = 0;

    for (const char *c = all->folder; *c; c++) {
        if (*c == '%')
            value[at++] = '%';
        value[at++] = *c;
    }
    snprintf(value + at, sizeof(value) - at, "/%s.%%p", name);
    return cli_set_variable(variable, value);
}

/* In the new process. */
static bool prepare(void *context)
{
    const struct verification *all = context;

    if (all->which == PLAIN)
        return !cli_is_preloaded() || cli_set_variable("COISSUE_DISABLE", "on");
    unsetenv("COISSUE_LIBRARY"); /* it was for us; the library would report it as unknown */
    unsetenv("COISSUE_DISABLE");
    if (all->with_errors && (!cli_set_variable("COISSUE_SUMMARY", "off") ||
                             (!getenv("COISSUE_LOG_FILE") && !set_template(all, "COISSUE_LOG_FILE", "log"))))
        return false;
    return cli_add_library(all->library) && cli_set_variable("COISSUE_MODE", "full") &&
           set_template(all, "COISSUE_VERIFY", "report");
}

static bool run_once(struct verification *all, int which)
{
    struct cli_start start = {.arguments = all->arguments, .input = all->null, .prepare = prepare, .context = all};
    bool fine;

    all->which = which;
    start.output = make_file(all, "stdout");
    start.errors = all->with_errors && start.output >= 0 ? make_file(all, "stderr") : -1;
    fine = start.output >= 0 && (start.errors >= 0 || !all->with_errors);
    if (all->input_begin >= 0) {
        start.input = -1;
        lseek(STDIN_FILENO, all->input_begin, SEEK_SET);
    }
    fine = fine && cli_run_program(&start, &all->status[which]);
    if (start.output >= 0)
        close(start.output);
    if (start.errors >= 0)
        close(start.errors);
    return fine && !cli_interrupted();
}

/* --- the comparison --- */

/* The line that begins there, cut. */
static void show_line(FILE *file, long begin, char *shown, size_t size)
{
    char line[LINE_BYTES + 8];
    struct text text;
    size_t length;

    length = fseek(file, begin, SEEK_SET) ? 0 : fread(line, 1, sizeof(line) - 1, file);
    line[length] = '\0';
    line[strcspn(line, "\n")] = '\0';
    text_init(&text, shown, size);
    if (length)
        text_clean(&text, line, LINE_BYTES);
    else
        text_string(&text, "(nothing)");
    text_end(&text);
}

static void find_difference(FILE *const files[RUNS], struct difference *difference)
{
    long at = 0, line_begin = 0;
    int a, b;

    difference->line = 1;
    for (;; at++) {
        a = getc(files[PLAIN]);
        b = getc(files[REWRITTEN]);
        if (a != b || a == EOF)
            break;
        if (a == '\n') {
            difference->line++;
            line_begin = at + 1;
        }
    }
    difference->differs = a != b;
    difference->byte = (uint64_t)(at - line_begin) + 1;
    if (at - line_begin > LINE_BYTES / 2)
        line_begin = at - LINE_BYTES / 2;
    for (int run = 0; run < RUNS; run++)
        show_line(files[run], line_begin, difference->text[run], sizeof(difference->text[run]));
}

static bool compare(const struct verification *all, const char *name, struct difference *difference)
{
    FILE *files[RUNS] = {NULL};
    char path[PATH_MAX];
    struct stat info;
    bool fine = true;

    for (int run = 0; run < RUNS && fine; run++) {
        fine = name_file(all, name, run, path);
        files[run] = fine ? fopen(path, "r") : NULL;
        fine = files[run] && fstat(fileno(files[run]), &info) == 0;
        if (fine)
            difference->bytes[run] = (uint64_t)info.st_size;
        else
            cli_complain("%s: %s", path, strerror(errno));
    }
    if (fine)
        find_difference(files, difference);
    for (int run = 0; run < RUNS; run++)
        if (files[run])
            fclose(files[run]);
    return fine;
}

/* --- the answer --- */

static bool is_equal(const struct verification *all)
{
    return all->status[PLAIN] == all->status[REWRITTEN] && !all->output.differs && !all->errors.differs;
}

static double share(const struct report *report)
{
    return report->launches ? 100.0 * (double)report->replaced / (double)report->launches : 0;
}

static bool is_enough(const struct verification *all)
{
    return all->report.launches && (all->limit < 0 || share(&all->report) >= all->limit);
}

static void say_status(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(text, size, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "exit status %d", WEXITSTATUS(status));
}

static void print_statuses(const struct verification *all)
{
    char text[RUNS][128];

    for (int run = 0; run < RUNS; run++)
        say_status(all->status[run], text[run], sizeof(text[run]));
    if (all->status[PLAIN] == all->status[REWRITTEN]) {
        printf("end:      %s, both times\n", text[PLAIN]);
        return;
    }
    puts("end:      DIFFERS");
    for (int run = 0; run < RUNS; run++)
        printf("          %-9s  %s\n", run_names[run], text[run]);
}

static void print_difference(const char *name, const struct difference *difference)
{
    if (!difference->differs) {
        printf("%s:   equal, %" PRIu64 " bytes\n", name, difference->bytes[PLAIN]);
        return;
    }
    printf("%s:   DIFFERS from line %" PRIu64 ", byte %" PRIu64 "\n", name, difference->line, difference->byte);
    for (int run = 0; run < RUNS; run++)
        printf("          %-9s  %s\n", run_names[run], difference->text[run]);
}

/* A launch that its own rewritten form did not fit has no refusal to show. */
static const char *why(const struct report_kernel *kernel)
{
    return strcmp(kernel->refusal, "NONE") == 0 ? "it is rewritten, but these launches do not fit that"
                                                : kernel->because;
}

static void print_missed(const struct report *report)
{
    bool any = false;

    for (size_t i = 0; i < report->kernel_count; i++) {
        const struct report_kernel *kernel = &report->kernels[i];
        char name[1024];
        struct text text;

        if (kernel->launches == kernel->replaced)
            continue;
        if (!any)
            puts("\nlaunches  not replaced");
        any = true;
        text_init(&text, name, sizeof(name));
        text_clean(&text, kernel->name, 200);
        text_end(&text);
        printf("%8" PRIu64 "  %s\n          %s: %s\n", kernel->launches - kernel->replaced, name, kernel->refusal,
               why(kernel));
    }
}

static void print_verdict(const struct verification *all)
{
    if (!is_equal(all))
        puts("\nNOT VERIFIED: the program behaves differently with rewritten kernels.");
    else if (!all->report.processes)
        puts("\nNOT VERIFIED: no process reported. None used CUDA, or coissue could not begin, or it ended by a "
             "signal.");
    else if (!all->report.launches)
        puts("\nNOT VERIFIED: no launch was held, so none could be replaced.");
    else if (!is_enough(all))
        printf("\nNOT VERIFIED: fewer than %g %% of launches were replaced.\n", all->limit);
    else
        puts("\nVerified: the program behaves the same with rewritten kernels.");
}

static void print_text(const struct verification *all)
{
    const struct report *report = &all->report;

    print_statuses(all);
    print_difference("stdout", &all->output);
    if (all->with_errors)
        print_difference("stderr", &all->errors);
    printf("launches: %" PRIu64 " in %" PRIu64 " process%s\n", report->launches, report->processes,
           report->processes == 1 ? "" : "es");
    if (report->launches) {
        uint64_t tenths = report->replaced * 1000 / report->launches; /* rounded down: 100 only if it is all of them */

        printf("replaced: %" PRIu64 " (%" PRIu64 ".%" PRIu64 " %%)\n", report->replaced, tenths / 10, tenths % 10);
    }
    print_missed(report);
    print_verdict(all);
}

static json_t *difference_json(const struct difference *difference)
{
    return json_pack("{s:b, s:I, s:I}", "equal", !difference->differs, "bytes", (json_int_t)difference->bytes[PLAIN],
                     "bytes_rewritten", (json_int_t)difference->bytes[REWRITTEN]);
}

static int shell_status(int status)
{
    return WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool write_json(const struct verification *all)
{
    const struct report *report = &all->report;
    json_t *out = json_object(), *kernels = json_array();
    bool fine;

    json_object_set_new(out, "verified", json_boolean(is_equal(all) && is_enough(all)));
    json_object_set_new(out, "equal", json_boolean(is_equal(all)));
    json_object_set_new(out, "exit_status", json_integer(shell_status(all->status[PLAIN])));
    json_object_set_new(out, "exit_status_rewritten", json_integer(shell_status(all->status[REWRITTEN])));
    json_object_set_new(out, "stdout", difference_json(&all->output));
    if (all->with_errors)
        json_object_set_new(out, "stderr", difference_json(&all->errors));
    json_object_set_new(out, "processes", json_integer((json_int_t)report->processes));
    json_object_set_new(out, "launches", json_integer((json_int_t)report->launches));
    json_object_set_new(out, "replaced", json_integer((json_int_t)report->replaced));
    json_object_set_new(out, "replaced_percent", json_real(share(report)));
    for (size_t i = 0; i < report->kernel_count; i++) {
        const struct report_kernel *kernel = &report->kernels[i];

        json_array_append_new(kernels, json_pack("{s:s, s:I, s:I, s:s, s:s}", "kernel", kernel->name, "launches",
                                                 (json_int_t)kernel->launches, "replaced", (json_int_t)kernel->replaced,
                                                 "refusal", kernel->refusal, "because", kernel->because));
    }
    json_object_set_new(out, "kernels", kernels);
    fine = json_dumpf(out, all->json, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', all->json) != EOF &&
           fflush(all->json) == 0;
    if (!fine)
        cli_complain("%s: %s", all->json_path, strerror(errno));
    json_decref(out);
    return fine;
}

/* --- before and after --- */

static bool make_folder(struct verification *all)
{
    const char *place = getenv("TMPDIR");
    char real[PATH_MAX];

    /* Absolute, because the program may go elsewhere. */
    if (!realpath(place && *place ? place : "/tmp", real)) {
        cli_complain("TMPDIR: '%s': %s", place ? place : "/tmp", strerror(errno));
        return false;
    }
    if (snprintf(all->folder, sizeof(all->folder), "%s/coissue-verify-XXXXXX", real) < (int)sizeof(all->folder) &&
        mkdtemp(all->folder))
        return true;
    cli_complain("cannot make a folder in '%s': %s", real, strerror(errno));
    all->folder[0] = '\0';
    return false;
}

/* What the library had to say about the run, and what did not stand between the program's own lines. */
static void keep_log(FILE *log, const char *path)
{
    FILE *file = fopen(path, "r");
    char line[1024];

    while (log && file && fgets(line, sizeof(line), file))
        fputs(line, log);
    if (file)
        fclose(file);
}

/* Before anything is printed: whoever reads that may end us. */
static void remove_folder(struct verification *all)
{
    FILE *log = open_memstream(&all->log, &all->log_size);
    DIR *entries = *all->folder ? opendir(all->folder) : NULL;
    const struct dirent *entry;
    char path[2 * PATH_MAX];

    while (entries && (entry = readdir(entries))) {
        snprintf(path, sizeof(path), "%s/%s", all->folder, entry->d_name);
        if (strncmp(entry->d_name, "log.", 4) == 0)
            keep_log(log, path);
        unlink(path);
    }
    if (entries)
        closedir(entries);
    if (log)
        fclose(log);
    if (*all->folder && rmdir(all->folder))
        cli_complain("%s: %s", all->folder, strerror(errno));
}

static bool open_all(struct verification *all)
{
    struct stat info;
    bool again = fstat(STDIN_FILENO, &info) == 0 && S_ISREG(info.st_mode);

    all->input_begin = again ? lseek(STDIN_FILENO, 0, SEEK_CUR) : -1;
    all->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    all->json = all->json_path ? fopen(all->json_path, "we") : NULL;
    if (all->json_path && !all->json)
        cli_complain("--json: '%s': %s", all->json_path, strerror(errno));
    return (all->json || !all->json_path) && make_folder(all);
}

static bool find_out(struct verification *all)
{
    return open_all(all) && run_once(all, PLAIN) && run_once(all, REWRITTEN) && compare(all, "stdout", &all->output) &&
           (!all->with_errors || compare(all, "stderr", &all->errors)) &&
           report_read(&all->report, all->folder, "report.");
}

static int verify(struct verification *all)
{
    int status = STATUS_USAGE;
    char library[PATH_MAX];
    bool answered;

    if (!cli_is_preloaded() && !cli_find_library(all->library, library)) /* before the program runs for nothing */
        return STATUS_USAGE;
    cli_watch_signals();
    answered = find_out(all);
    remove_folder(all);
    if (answered) {
        print_text(all);
        if (cli_finish_output() && (!all->json || write_json(all)))
            status = is_equal(all) && is_enough(all) ? STATUS_FINE : STATUS_BAD_NEWS;
    }
    if (all->log)
        fputs(all->log, stderr);
    free(all->log);
    report_finish(&all->report);
    if (all->json)
        fclose(all->json);
    cli_end_as_interrupted();
    return status;
}

static bool read_limit(const char *text, double *limit)
{
    char *end;

    if (!text)
        return true;
    *limit = strtod(text, &end);
    if (end != text && (*end == '\0' || strcmp(end, "%") == 0) && *limit >= 0 && *limit <= 100)
        return true;
    cli_complain("--limit: \"%s\" is not a number of percent from 0 to 100", text);
    return false;
}

int cli_verify(int count, char **arguments)
{
    struct verification all = {.limit = -1};
    bool help = false;
    const char *limit = NULL;
    const struct cli_option table[] = {
        {"--help", .flag = &help},    {"--json", .value = &all.json_path},    {"--library", .value = &all.library},
        {"--limit", .value = &limit}, {"--stderr", .flag = &all.with_errors}, {0}};
    int at = cli_options(table, count, arguments);

    if (at < 0)
        return STATUS_USAGE;
    if (help) {
        fputs(usage, stdout);
        return cli_finish_output() ? STATUS_FINE : STATUS_USAGE;
    }
    if (!read_limit(limit, &all.limit))
        return STATUS_USAGE;
    if (at >= count) {
        cli_complain("the program to run is missing");
        return STATUS_USAGE;
    }
    all.arguments = arguments + at;
    return verify(&all);
}
