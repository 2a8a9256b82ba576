/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce/inflate.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>

/* As lz4.h and zstd.h declare them; both libraries keep these stable under their soname. */
typedef int (*lz4_decompress_fn)(const char *packed, char *out, int packed_size, int size);
typedef size_t (*zstd_decompress_fn)(void *out, size_t size, const void *packed, size_t packed_size);
typedef unsigned (*zstd_is_error_fn)(size_t result);
typedef unsigned long long (*zstd_content_size_fn)(const void *packed, size_t packed_size);

#define ZSTD_SIZE_UNKNOWN (0ULL - 1) /* ZSTD_CONTENTSIZE_UNKNOWN */
#define ZSTD_SIZE_ERROR (0ULL - 2)   /* ZSTD_CONTENTSIZE_ERROR */

/*
 * One function of a library, looked up once. Threads that come at the same time may each look it up; they find the
 * same, and the library is never closed, so the pointer carries all there is to know: NULL not looked for yet,
 * `missing` not there. Relaxed is enough: the loader orders its own work, and nothing of ours is read through the
 * pointer.
 */
static char missing;

static void *function(void **slot, const char *library, const char *name)
{
    void *found = __atomic_load_n(slot, __ATOMIC_RELAXED);

    if (!found) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

        found = handle ? dlsym(handle, name) : NULL;
        if (!found)
            found = &missing;
        __atomic_store_n(slot, found, __ATOMIC_RELAXED);
    }
    return found == &missing ? NULL : found;
}

static int inflate_lz4(const void *packed, size_t packed_size, void *out, size_t size)
{
    static void *slot;
    lz4_decompress_fn decompress = (lz4_decompress_fn)function(&slot, "liblz4.so.1", "LZ4_decompress_safe");

    if (!decompress)
        return -ENOSYS;
    if (packed_size > INT_MAX || size > INT_MAX)
        return -EINVAL;
    return decompress(packed, out, (int)packed_size, (int)size) == (int)size ? 0 : -EINVAL;
}

static int inflate_zstd(const void *packed, size_t packed_size, void *out, size_t size)
{
    static void *slots[3];
    static const char library[] = "libzstd.so.1";
    zstd_decompress_fn decompress = (zstd_decompress_fn)function(&slots[0], library, "ZSTD_decompress");
    zstd_is_error_fn is_error = (zstd_is_error_fn)function(&slots[1], library, "ZSTD_isError");
    zstd_content_size_fn content = (zstd_content_size_fn)function(&slots[2], library, "ZSTD_getFrameContentSize");
    unsigned long long said;
    size_t result;

    if (!decompress || !is_error || !content)
        return -ENOSYS;
    said = content(packed, packed_size); /* of the first frame; cheap, and most damage shows here */
    if (said == ZSTD_SIZE_ERROR || (said != ZSTD_SIZE_UNKNOWN && said > size))
        return -EINVAL;
    result = decompress(out, size, packed, packed_size);
    return !is_error(result) && result == size ? 0 : -EINVAL;
}

int inflate_bytes(enum inflate_method method, const void *packed, size_t packed_size, void *out, size_t size)
{
    return method == INFLATE_LZ4 ? inflate_lz4(packed, packed_size, out, size)
                                 : inflate_zstd(packed, packed_size, out, size);
}
