/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processes of one verified run report (COISSUE_VERIFY), added up.
 */
#ifndef COISSUE_CLI_REPORT_H
#define COISSUE_CLI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report_kernel {
    char *name, *refusal, *because; /* owned */
    uint64_t launches, replaced;
};

struct report {
    uint64_t processes, launches, replaced;
    struct report_kernel *kernels; /* owned; one for each kernel and refusal, most launches not replaced first */
    size_t kernel_count;
};

/*
 * Reads all files of a folder whose names begin with `prefix`. False, after a complaint, if one cannot be read or is
 * not a whole report. Needs report_finish either way.
 */
bool report_read(struct report *report, const char *folder, const char *prefix);
void report_finish(struct report *report);

#endif
