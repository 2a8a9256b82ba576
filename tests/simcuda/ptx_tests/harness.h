/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the PTX interpreter share: a module from a file of kernels/, a list of allocations that kernels may
 * touch, launches with arguments by pointer. Everything asserts; nothing returns an error.
 *
 * The .ptx files come from the .cu files next to them (regenerate.sh); *_debug are unoptimised.
 */
#ifndef COISSUE_TESTS_SIMCUDA_PTX_TESTS_HARNESS_H
#define COISSUE_TESTS_SIMCUDA_PTX_TESTS_HARNESS_H

#include "tests/simcuda/ptx/ptx.h"

#include <stdint.h>

enum { DEVICE_RANGES_MAX = 64 };

struct device {
    struct ptx_module *module;
    struct ptx_instance *instance;
    struct {
        uint64_t lo, hi;
        bool writable;
    } ranges[DEVICE_RANGES_MAX];
    int range_count;
    unsigned questions; /* calls of may_access */
    bool portable;      /* for ptx_launch */
    char *text;
};

char *harness_read(const char *file, size_t *length); /* of kernels/; the caller frees */
/* `file` without .ptx; "file:portable" runs its kernels on the code without AVX2. */
void device_open(struct device *device, const char *file);
void device_open_text(struct device *device, const char *text);
void device_close(struct device *device);

/* Zeroed memory that kernels may read and write, followed by bytes that they may not. Lives until device_close. */
void *device_alloc(struct device *device, size_t bytes);
void *device_copy(struct device *device, const void *from, size_t bytes);

struct launch_size {
    uint32_t grid[3], block[3], shared;
};

#define SIZE1(g, b) ((struct launch_size){{(g), 1, 1}, {(b), 1, 1}, 0})
#define SIZE_SHARED(g, b, s) ((struct launch_size){{(g), 1, 1}, {(b), 1, 1}, (s)})
#define ARGS(...) ((const void *[]){__VA_ARGS__}), sizeof((const void *[]){__VA_ARGS__}) / sizeof(void *)

/* Fills *launch and *params (PTX_PARAM_BYTES_MAX bytes) from pointers to the arguments; gives the kernel's index. */
size_t device_prepare(struct device *device, const char *kernel, struct launch_size size, const void *const *args,
                      size_t count, struct ptx_launch *launch, void *params);
/* Must succeed. */
void device_run(struct device *device, const char *kernel, struct launch_size size, const void *const *args,
                size_t count);
/* Must fail with -EFAULT; gives the fault. */
struct ptx_fault device_fault(struct device *device, const char *kernel, struct launch_size size,
                              const void *const *args, size_t count);

/* Reproducible numbers. */
uint32_t random32(uint32_t *state);
float random_float(uint32_t *state); /* in (-1, 1) */

#endif
