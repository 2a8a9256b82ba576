/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs give to the driver as code: a fatbin wrapper, fatbins, a cubin or PTX text; how large it is, and which
 * part of it a device would use.
 *
 *   image_measure(start, limit, &image)      from the pointer that the driver got
 *   image_copy(&image, &copy)                if the program's memory will not stay; image_finish(&copy)
 *   image_find(&image, sm, kernel, &code)    the cubin or PTX with that kernel; image_code_finish(&code)
 *   image_code_has(&code, other)             whether it also has another kernel: saves unpacking it again
 *
 * NVIDIA documents only the wrapper (fatbinary_section.h). The rest was seen in the output of nvcc 13.0 and agrees with
 * what others found; image.c has the offsets. A byte is read only after the sizes before it said that it is there.
 *
 * An image refers to the program's memory and must not outlive it. Any thread; one image may be read by many at once.
 * Errors: -EINVAL and -ENOTSUP with a refusal (the first when the bytes contradict themselves), -ENOMEM without.
 */
#ifndef COISSUE_COALESCE_IMAGE_H
#define COISSUE_COALESCE_IMAGE_H

#include "coalesce/coalesce.h"

enum image_kind { IMAGE_FATBIN, IMAGE_CUBIN, IMAGE_PTX };

enum {
    IMAGE_BYTES_MAX =
        512 << 20, /* of an image's part, packed or not; the largest of PyTorch and cuDNN are near 100 MB */
    IMAGE_PRELINKED_MAX = 1 << 16,
};

struct image {
    enum image_kind kind;
    const unsigned char *bytes; /* of a wrapper: of the fatbin that it points to */
    size_t size;
    const void *const *prelinked; /* further fatbins, as in a wrapper of version 2; NULL if there are none */
    size_t prelinked_count;
    void *owned; /* what image_finish frees */
};

/*
 * Recognises what lies at `start` and finds its extent. `limit`: how much may be read there, SIZE_MAX if the caller
 * does not know; then the image's own headers are believed, as the driver believes them. With a known limit, fatbins
 * that follow the first one belong to the image, as in a file. Nothing is allocated.
 */
int image_measure(const void *start, size_t limit, struct image *image, enum coalesce_refusal *refusal);

/* Bytes that a copy takes. */
size_t image_copy_bytes(const struct image *image);

/*
 * A copy in memory of its own, without the wrapper. Prelinked fatbins are copied too. -EINVAL: they changed meanwhile.
 */
int image_copy(const struct image *image, struct image *copy);
void image_finish(struct image *image);

/* Code of one architecture, not packed. */
struct image_code {
    enum coalesce_code code;
    const void *bytes; /* in the image, or in `owned` */
    size_t size;       /* of PTX: without NULs at its end */
    unsigned sm;       /* 90 for sm_90 and sm_90a; 0: the image does not say (bare PTX) */
    bool specific;     /* sm_90a: runs on this architecture only */
    void *owned;
};

/*
 * The code with `kernel` that the driver would use on a device of capability `sm` (90 for 9.0): the cubin of the
 * highest architecture that runs there, an architecture-specific one before a plain one, else the PTX of the highest.
 * With several fatbins the first that has the kernel in its best code. `kernel` NULL: whatever comes first. Set on
 * success only.
 */
int image_find(const struct image *image, unsigned sm, const char *kernel, struct image_code *code,
               enum coalesce_refusal *refusal);
void image_code_finish(struct image_code *code);

/* A section `.text.kernel` in a cubin, `.entry kernel` in PTX. Reads the names only; cubin.h validates the rest. */
bool image_code_has(const struct image_code *code, const char *kernel);

/*
 * 128 bits of the content, for keys of caches: MurmurHash3_x64_128. Fast and well mixed, but not made to withstand
 * somebody who looks for collisions; who shares a cache trusts each other.
 */
struct image_digest {
    uint64_t words[2];
};
struct image_digest image_hash(const void *bytes, size_t size, uint32_t seed);

#endif
