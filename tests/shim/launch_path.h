/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs launch_path_*.c share: running themselves again under the preload, a small program for the device,
 * and reading what the preloaded library says of itself.
 *
 * Each of these programs is two: started by a person or by meson it is the judge, which starts itself again as the
 * program under test, once with the preload and once without, with an environment that the judge alone decides. So no
 * setting of the caller can change the result, and the judge can require that a planted fault is found.
 */
#ifndef COISSUE_TESTS_SHIM_LAUNCH_PATH_H
#define COISSUE_TESTS_SHIM_LAUNCH_PATH_H

#include "driver/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PASSED = 0, FAILED = 1, SKIPPED = 77 };

/* --- for the judge --- */

struct subject {
    const char *shim;         /* libcoissue.so to preload; NULL: none */
    const char *libraries;    /* folder with the libcuda.so.1 to use; NULL: the machine's own */
    const char *settings[8];  /* "NAME=value", up to a NULL */
    const char *arguments[8]; /* after the program's name, up to a NULL */
};

/*
 * Starts this program again as `subject` and waits. What it wrote to stdout and stderr is put into `output`, cut to
 * `size`. Returns its exit status, or 128 + the signal that ended it, or 255 if it could not be started.
 */
int subject_run(const struct subject *subject, char *output, size_t size);

/* The number in front of `label` in the summary of the library, commas removed; -1 if there is no such line. */
long long summary_number(const char *output, const char *label);

/* --- for the subject --- */

/* Fills `cuda` with what dlsym says, so with the wrappers if there is a preload, and makes a context. Says what fails.
 */
bool cuda_begin(struct cu_driver *cuda);

/* Says which call failed. */
bool cuda_check(CUresult result, const char *what);

#endif
