/* SPDX-License-Identifier: Apache-2.0
 *
 * Images as nvcc lays them out, made by hand, for the tests of the readers: fatbins with entries of any kind, cubins
 * with nothing but names. NVIDIA's own are not needed (and not committed).
 */
#ifndef COISSUE_TESTS_COALESCE_IMAGE_MAKER_H
#define COISSUE_TESTS_COALESCE_IMAGE_MAKER_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct maker {
    unsigned char *bytes;
    size_t size;
};

enum { MAKE_PTX = 1, MAKE_CUBIN = 2, MAKE_64 = 0x11, MAKE_LZ4 = 0x2000, MAKE_ZSTD = 0x8000, MAKE_SPECIFIC = 0x100000 };

static inline void make_append(struct maker *maker, const void *bytes, size_t size)
{
    maker->bytes = realloc(maker->bytes, maker->size + size + 1);
    if (!maker->bytes)
        abort();
    if (size)
        memcpy(maker->bytes + maker->size, bytes, size);
    maker->size += size;
}

static inline void make_put(struct maker *maker, size_t at, const void *value, size_t size)
{
    memcpy(maker->bytes + at, value, size);
}

static inline void make_u64(struct maker *maker, size_t at, uint64_t value)
{
    make_put(maker, at, &value, sizeof(value));
}

static inline void make_u32(struct maker *maker, size_t at, uint32_t value)
{
    make_put(maker, at, &value, sizeof(value));
}

/* An empty fatbin; returns where it begins. */
static inline size_t make_fatbin(struct maker *maker)
{
    static const unsigned char header[16] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0};
    size_t at = maker->size;

    make_append(maker, header, sizeof(header));
    return at;
}

/* Adds an entry to the fatbin at `fatbin`, the last one; returns where its header is. `full` 0: not packed. */
static inline size_t make_entry(struct maker *maker, size_t fatbin, unsigned kind, unsigned arch, uint64_t flags,
                                const void *payload, size_t size, uint64_t full)
{
    static const unsigned char zeros[64];
    size_t at = maker->size, padded = (size + 7) / 8 * 8;

    make_append(maker, zeros, 64);
    make_u32(maker, at, kind | 0x101 << 16);
    make_u32(maker, at + 4, 64);
    make_u64(maker, at + 8, padded);
    make_u32(maker, at + 16, full ? (uint32_t)size : 0);
    make_u32(maker, at + 28, arch);
    make_u64(maker, at + 40, flags);
    make_u64(maker, at + 56, full);
    make_append(maker, payload, size);
    make_append(maker, zeros, padded - size);
    make_u64(maker, fatbin + 8, maker->size - fatbin - 16);
    return at;
}

/* A cubin (ABI 8) with a section per kernel name; NULL ends the names. */
static inline struct maker make_cubin(unsigned sm, const char *const *kernels)
{
    struct maker file = {0};
    char names[4096] = "\0.shstrtab";
    size_t used = strlen(".shstrtab") + 2, count = 2;
    Elf64_Shdr sections[16] = {{0}};
    Elf64_Ehdr header = {0};

    memcpy(header.e_ident, "\177ELF\2\1\1\x41\x08", 9);
    header.e_type = ET_EXEC;
    header.e_machine = 190;
    header.e_flags = 0x06000004u | sm << 8;
    header.e_ehsize = sizeof(header);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shstrndx = 1;
    make_append(&file, &header, sizeof(header));
    for (; *kernels && count < 16; kernels++, count++) {
        sections[count] =
            (Elf64_Shdr){.sh_name = (uint32_t)used, .sh_type = SHT_PROGBITS, .sh_offset = file.size, .sh_size = 16};
        make_append(&file, "0123456789abcdef", 16);
        stpcpy(stpcpy(names + used, ".text."), *kernels);
        used += strlen(names + used) + 1;
    }
    sections[1] = (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = file.size, .sh_size = used};
    make_append(&file, names, used);
    header.e_shoff = file.size;
    header.e_shnum = (uint16_t)count;
    make_append(&file, sections, count * sizeof(sections[0]));
    make_put(&file, 0, &header, sizeof(header));
    return file;
}

#endif
