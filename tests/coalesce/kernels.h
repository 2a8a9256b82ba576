/* SPDX-License-Identifier: Apache-2.0
 *
 * The cubin that tests share: sass_kernels.cu, compiled (make-sass-kernels.sh).
 */
#ifndef COISSUE_TESTS_COALESCE_KERNELS_H
#define COISSUE_TESTS_COALESCE_KERNELS_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { KERNELS_BYTES_MAX = 1 << 20 };

/* For free(). */
static inline unsigned char *read_kernels(size_t *size)
{
    const char *folder = getenv("COALESCE_TESTS_KERNELS");
    unsigned char *image = malloc(KERNELS_BYTES_MAX);
    char path[4096];
    FILE *file;

    cr_assert(folder);
    snprintf(path, sizeof(path), "%s/sass_kernels.cubin", folder);
    file = fopen(path, "rb");
    cr_assert(file);
    *size = fread(image, 1, KERNELS_BYTES_MAX, file);
    fclose(file);
    return image;
}

#endif
