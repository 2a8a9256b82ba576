/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce/inflate.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* "hello" by hand. LZ4: a token with the number of literals, then they. zstd: magic, a header with one byte of size, a
 * last raw block of 5 bytes. */
static const unsigned char lz4[] = {0x50, 'h', 'e', 'l', 'l', 'o'};
static const unsigned char zstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 5 << 3 | 1, 0, 0, 'h', 'e', 'l', 'l', 'o'};

static void need(const char *library)
{
    if (!dlopen(library, RTLD_NOW))
        cr_skip("%s is not installed", library);
}

Test(inflate, unpacks_lz4)
{
    char out[5];

    need("liblz4.so.1");
    cr_assert(eq(int, inflate_bytes(INFLATE_LZ4, lz4, sizeof(lz4), out, 5), 0));
    cr_expect(eq(int, memcmp(out, "hello", 5), 0));
}

Test(inflate, unpacks_zstd)
{
    char out[5];

    need("libzstd.so.1");
    cr_assert(eq(int, inflate_bytes(INFLATE_ZSTD, zstd, sizeof(zstd), out, 5), 0));
    cr_expect(eq(int, memcmp(out, "hello", 5), 0));
}

Test(inflate, a_size_other_than_the_declared_one_is_an_error)
{
    char out[8];

    need("liblz4.so.1");
    need("libzstd.so.1");
    for (size_t size = 0; size <= 8; size++) {
        if (size == 5)
            continue;
        cr_expect(eq(int, inflate_bytes(INFLATE_LZ4, lz4, sizeof(lz4), out, size), -EINVAL), "%zu", size);
        cr_expect(eq(int, inflate_bytes(INFLATE_ZSTD, zstd, sizeof(zstd), out, size), -EINVAL), "%zu", size);
    }
}

Test(inflate, a_cut_input_is_an_error)
{
    need("liblz4.so.1");
    need("libzstd.so.1");
    for (size_t size = 0; size < sizeof(zstd); size++) {
        char out[5];

        cr_expect(eq(int, inflate_bytes(INFLATE_ZSTD, zstd, size, out, 5), -EINVAL), "%zu", size);
        if (size < sizeof(lz4))
            cr_expect(eq(int, inflate_bytes(INFLATE_LZ4, lz4, size, out, 5), -EINVAL), "%zu", size);
    }
}

Test(inflate, more_than_the_library_takes_is_refused)
{
    char out[1];

    need("liblz4.so.1");
    cr_expect(eq(int, inflate_bytes(INFLATE_LZ4, lz4, (size_t)1 << 32, out, 1), -EINVAL));
    cr_expect(eq(int, inflate_bytes(INFLATE_LZ4, lz4, sizeof(lz4), out, (size_t)1 << 32), -EINVAL));
}
