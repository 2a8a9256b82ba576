/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of a verification: one file for each process, written by twins_report of engine/twin.c as it exits. They are
 * added up by kernel and reason.
 */
#include "cli/report.h"

#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool add_kernel(struct report *report, const char *name, const char *refusal, const char *because,
                       uint64_t launches, uint64_t replaced)
{
    struct report_kernel *kernel;

    for (size_t i = 0; i < report->kernel_count; i++) {
        kernel = &report->kernels[i];
        if (strcmp(kernel->name, name) == 0 && strcmp(kernel->refusal, refusal) == 0) {
            kernel->launches += launches;
            kernel->replaced += replaced;
            return true;
        }
    }
    kernel = realloc(report->kernels, (report->kernel_count + 1) * sizeof(*kernel));
    if (!kernel)
        return false;
    report->kernels = kernel;
    kernel += report->kernel_count;
    *kernel = (struct report_kernel){strdup(name), strdup(refusal), strdup(because), launches, replaced};
    report->kernel_count++;
    return kernel->name && kernel->refusal && kernel->because;
}

static bool add_function(struct report *report, const char *path, size_t index, const json_t *function)
{
    const json_t *launches = json_object_get(function, "launches"), *replaced = json_object_get(function, "replaced");
    const char *name = json_string_value(json_object_get(function, "kernel"));
    const char *refusal = json_string_value(json_object_get(function, "refusal"));
    const char *because = json_string_value(json_object_get(function, "because"));

    if (!name || !refusal || !because || !json_is_integer(launches) || !json_is_integer(replaced) ||
        json_integer_value(replaced) < 0 || json_integer_value(launches) < json_integer_value(replaced)) {
        cli_complain("%s: function %zu is not as it should be", path, index);
        return false;
    }
    report->launches += (uint64_t)json_integer_value(launches);
    report->replaced += (uint64_t)json_integer_value(replaced);
    if (add_kernel(report, name, refusal, because, (uint64_t)json_integer_value(launches),
                   (uint64_t)json_integer_value(replaced)))
        return true;
    cli_complain("out of memory");
    return false;
}

static bool add_file(struct report *report, const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    const json_t *functions = json_object_get(root, "functions");
    bool fine = json_is_array(functions);

    if (!root)
        cli_complain("%s: line %d, column %d: %s", path, error.line, error.column, error.text);
    else if (!fine)
        cli_complain("%s: no list 'functions'", path);
    for (size_t i = 0; fine && i < json_array_size(functions); i++)
        fine = add_function(report, path, i, json_array_get(functions, i));
    report->processes += fine;
    json_decref(root);
    return fine;
}

/* Most launches that were not replaced first. */
static int by_missed(const void *a, const void *b)
{
    const struct report_kernel *x = a, *y = b;
    uint64_t missed_x = x->launches - x->replaced, missed_y = y->launches - y->replaced;
    int order = strcmp(x->name, y->name);

    if (missed_x != missed_y)
        return missed_x > missed_y ? -1 : 1;
    return order ? order : strcmp(x->refusal, y->refusal);
}

bool report_read(struct report *report, const char *folder, const char *prefix)
{
    const struct dirent *entry;
    DIR *entries = opendir(folder);
    bool fine = entries;
    char *path;

    memset(report, 0, sizeof(*report));
    if (!entries)
        cli_complain("%s: %s", folder, strerror(errno));
    while (fine && (entry = readdir(entries))) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        fine = asprintf(&path, "%s/%s", folder, entry->d_name) >= 0;
        if (!fine) {
            cli_complain("out of memory");
            break;
        }
        fine = add_file(report, path);
        free(path);
    }
    if (entries)
        closedir(entries);
    if (fine && report->kernel_count)
        qsort(report->kernels, report->kernel_count, sizeof(*report->kernels), by_missed);
    return fine;
}

void report_finish(struct report *report)
{
    for (size_t i = 0; i < report->kernel_count; i++) {
        free(report->kernels[i].name);
        free(report->kernels[i].refusal);
        free(report->kernels[i].because);
    }
    free(report->kernels);
}
