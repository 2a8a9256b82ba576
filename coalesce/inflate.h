/* SPDX-License-Identifier: Apache-2.0
 *
 * Unpacking of compressed parts of fatbins: LZ4 blocks and zstd frames, by the system's own libraries.
 *
 * They are opened when the first compressed part is met, not linked: code that is loaded into other people's processes
 * depends on libc alone, and most images need neither. This is the one place in coalesce/ that opens anything.
 */
#ifndef COISSUE_COALESCE_INFLATE_H
#define COISSUE_COALESCE_INFLATE_H

#include <stddef.h>

enum inflate_method { INFLATE_LZ4, INFLATE_ZSTD };

/*
 * Unpacks `packed` into `out`, which must be filled to the last byte. -EINVAL: the bytes are damaged, or give another
 * size. -ENOSYS: the library is not there. Any thread. After an error the content of `out` is undefined.
 */
int inflate_bytes(enum inflate_method method, const void *packed, size_t packed_size, void *out, size_t size);

#endif
