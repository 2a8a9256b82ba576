/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout of what is read, all little endian (nvcc 13.0; the wrapper as in fatbinary_section.h):
 *
 *   wrapper  u32 0x466243b1, u32 version, pointer to a fatbin, pointer to (version 2) an array of pointers to further
 *            fatbins with a NULL at its end
 *   fatbin   u32 0xba55ed50, u16 version 1, u16 bytes of this header (16), u64 bytes of the entries
 *   entry    at  0 u16 kind: 1 PTX, 2 cubin
 *            at  4 u32 bytes of this header (64, 80 and 112 were seen)
 *            at  8 u64 bytes of the payload behind it, padded
 *            at 16 u32 bytes of the payload when packed, else 0
 *            at 28 u32 architecture: 90 for sm_90, sm_90a, compute_90
 *            at 40 u64 flags
 *            at 56 u64 bytes when unpacked
 */
#include "coalesce/image.h"

#include "coalesce/inflate.h"
#include "coalesce/ptx_lex.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
#define CUBIN_MACHINE 190 /* EM_CUDA */

enum { WRAPPER_BYTES = 24, WRAPPER_PRELINKED = 2, FATBIN_HEADER = 16, ENTRY_HEADER = 64, MAGIC_BYTES = 4 };
enum { ENTRY_PTX = 1, ENTRY_CUBIN = 2 };

/* Of an entry. The last two were seen for sm_90a and sm_100a, and for sm_100f. */
enum {
    FLAG_64_BIT = 0x1,
    FLAG_LZ4 = 0x2000,
    FLAG_ZSTD = 0x8000,
    FLAG_SPECIFIC = 0x100000,
    FLAG_FAMILY = 0x200000,
};

/*
 * An entry that claims to unpack to more than this is refused before memory is taken. LZ4 cannot do more than 255; real
 * cubins reach about 20, and one of zeros only nothing that a program would load.
 */
enum { RATIO_MAX = 1024, RATIO_SLACK = 1 << 16 };

static uint16_t u16(const unsigned char *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static uint32_t u32(const unsigned char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t u64(const unsigned char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static int refuse(int error, enum coalesce_refusal why, enum coalesce_refusal *refusal)
{
    *refusal = why;
    return error;
}

static int broken(enum coalesce_refusal *refusal)
{
    return refuse(-EINVAL, COALESCE_IMAGE_BROKEN, refusal);
}

/* ---- extents ---- */

/* The fatbin at `bytes`, header and entries. */
static int fatbin_extent(const unsigned char *bytes, size_t limit, size_t *size, enum coalesce_refusal *refusal)
{
    uint64_t entries;
    uint16_t header;

    if (limit < FATBIN_HEADER || u32(bytes) != FATBIN_MAGIC)
        return broken(refusal);
    header = u16(bytes + 6);
    entries = u64(bytes + 8);
    if (header < FATBIN_HEADER || header > limit || entries > limit - header)
        return broken(refusal);
    if (entries > IMAGE_BYTES_MAX)
        return refuse(-ENOTSUP, COALESCE_IMAGE_LARGE, refusal);
    *size = header + (size_t)entries;
    return 0;
}

/* As many fatbins as follow each other. Without a known limit it is one: what comes behind it may be anything. */
static int fatbins_extent(const unsigned char *bytes, size_t limit, size_t *size, enum coalesce_refusal *refusal)
{
    size_t all, one;
    int error = fatbin_extent(bytes, limit, &all, refusal);

    while (!error && limit != SIZE_MAX && limit - all >= FATBIN_HEADER && u32(bytes + all) == FATBIN_MAGIC) {
        error = fatbin_extent(bytes + all, limit - all, &one, refusal);
        if (!error)
            all += one;
        if (!error && all > IMAGE_BYTES_MAX)
            error = refuse(-ENOTSUP, COALESCE_IMAGE_LARGE, refusal);
    }
    if (!error)
        *size = all;
    return error;
}

/* Stretches `end` over `size` bytes at `offset`. */
static bool stretch(uint64_t *end, uint64_t offset, uint64_t size)
{
    uint64_t stop;

    if (__builtin_add_overflow(offset, size, &stop))
        return false;
    if (stop > *end)
        *end = stop;
    return true;
}

/*
 * Number of section headers and the index of the section of their names. Both are in the first section header if they
 * do not fit into the file's, as in cubins with tens of thousands of kernels. `limit` bytes at `bytes` may be read.
 */
static bool section_counts(const unsigned char *bytes, size_t limit, const Elf64_Ehdr *file, uint64_t *count,
                           uint64_t *names)
{
    Elf64_Shdr first = {0};

    *count = file->e_shnum;
    *names = file->e_shstrndx;
    if (file->e_shoff && (file->e_shnum == 0 || file->e_shstrndx == SHN_XINDEX)) {
        if (file->e_shoff > limit || limit - file->e_shoff < sizeof(first))
            return false;
        memcpy(&first, bytes + file->e_shoff, sizeof(first));
        if (file->e_shnum == 0)
            *count = first.sh_size;
        if (file->e_shstrndx == SHN_XINDEX)
            *names = first.sh_link;
    }
    return *count <= IMAGE_BYTES_MAX / sizeof(Elf64_Shdr);
}

static bool cubin_header(const unsigned char *bytes, size_t limit, Elf64_Ehdr *file)
{
    if (limit < sizeof(*file))
        return false;
    memcpy(file, bytes, sizeof(*file));
    return file->e_ident[EI_CLASS] == ELFCLASS64 && file->e_ident[EI_DATA] == ELFDATA2LSB &&
           file->e_machine == CUBIN_MACHINE && (!file->e_shoff || file->e_shentsize == sizeof(Elf64_Shdr)) &&
           (!file->e_phnum || file->e_phentsize == sizeof(Elf64_Phdr));
}

/* The end of the last thing that the headers speak of. */
static int cubin_extent(const unsigned char *bytes, size_t limit, size_t *size, enum coalesce_refusal *refusal)
{
    uint64_t end = sizeof(Elf64_Ehdr), sections, names;
    Elf64_Ehdr file;

    if (!cubin_header(bytes, limit, &file))
        return limit < sizeof(file) ? broken(refusal) : refuse(-ENOTSUP, COALESCE_IMAGE_KIND, refusal);
    if (!section_counts(bytes, limit, &file, &sections, &names) ||
        !stretch(&end, file.e_shoff, sections * sizeof(Elf64_Shdr)) ||
        !stretch(&end, file.e_phnum ? file.e_phoff : 0, file.e_phnum * sizeof(Elf64_Phdr)) || end > limit)
        return broken(refusal);
    if (end > IMAGE_BYTES_MAX)
        return refuse(-ENOTSUP, COALESCE_IMAGE_LARGE, refusal);
    for (uint64_t i = 0; file.e_shoff && i < sections; i++) {
        Elf64_Shdr section;

        memcpy(&section, bytes + file.e_shoff + i * sizeof(section), sizeof(section));
        if (i && section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS &&
            !stretch(&end, section.sh_offset, section.sh_size))
            return broken(refusal);
    }
    for (uint64_t i = 0; i < file.e_phnum; i++) {
        Elf64_Phdr segment;

        memcpy(&segment, bytes + file.e_phoff + i * sizeof(segment), sizeof(segment));
        if (!stretch(&end, segment.p_offset, segment.p_filesz))
            return broken(refusal);
    }
    if (end > limit)
        return broken(refusal);
    if (end > IMAGE_BYTES_MAX)
        return refuse(-ENOTSUP, COALESCE_IMAGE_LARGE, refusal);
    *size = (size_t)end;
    return 0;
}

/*
 * Text up to its NUL or to the limit. What cannot begin PTX is something else: the driver knows more kinds than we do.
 */
static int ptx_extent(const unsigned char *bytes, size_t limit, size_t *size, enum coalesce_refusal *refusal)
{
    size_t most = limit < IMAGE_BYTES_MAX ? limit : IMAGE_BYTES_MAX;
    size_t length = strnlen((const char *)bytes, most), at = 0;

    if (length == IMAGE_BYTES_MAX)
        return refuse(-ENOTSUP, COALESCE_IMAGE_LARGE, refusal);
    while (at < length && strchr(" \t\r\n\v\f", bytes[at]))
        at++;
    if (at == length || (bytes[at] != '.' && bytes[at] != '/'))
        return refuse(-ENOTSUP, COALESCE_IMAGE_KIND, refusal);
    *size = length;
    return 0;
}

static int measure_wrapper(const unsigned char *bytes, size_t limit, struct image *image,
                           enum coalesce_refusal *refusal)
{
    const void *const *array;
    uint64_t data, more;
    size_t count = 0;

    if (limit < WRAPPER_BYTES)
        return broken(refusal);
    data = u64(bytes + 8);
    more = u64(bytes + 16);
    if (!data)
        return broken(refusal);
    image->kind = IMAGE_FATBIN;
    image->bytes = (const unsigned char *)(uintptr_t)data;
    if (u32(bytes + 4) == WRAPPER_PRELINKED && more) {
        if (more % _Alignof(const void *) != 0)
            return broken(refusal);
        array = (const void *const *)(uintptr_t)more;
        while (count < IMAGE_PRELINKED_MAX && array[count])
            count++;
        if (count == IMAGE_PRELINKED_MAX)
            return refuse(-ENOTSUP, COALESCE_IMAGE_LARGE, refusal);
        image->prelinked = count ? array : NULL;
        image->prelinked_count = count;
    }
    return fatbins_extent(image->bytes, SIZE_MAX, &image->size, refusal);
}

/* A text may be shorter than a magic number, so its NUL ends the reading. */
static uint32_t magic_of(const unsigned char *bytes, size_t limit)
{
    if (limit < MAGIC_BYTES || strnlen((const char *)bytes, MAGIC_BYTES) < MAGIC_BYTES)
        return 0;
    return u32(bytes);
}

int image_measure(const void *start, size_t limit, struct image *image, enum coalesce_refusal *refusal)
{
    const unsigned char *bytes = start;
    struct image found = {.bytes = bytes};
    uint32_t magic;
    int error;

    if (!bytes)
        return refuse(-EINVAL, COALESCE_NO_IMAGE, refusal);
    magic = magic_of(bytes, limit);
    if (magic == WRAPPER_MAGIC) {
        error = measure_wrapper(bytes, limit, &found, refusal);
    } else if (magic == FATBIN_MAGIC) {
        found.kind = IMAGE_FATBIN;
        error = fatbins_extent(bytes, limit, &found.size, refusal);
    } else if (magic && memcmp(bytes, ELFMAG, SELFMAG) == 0) {
        found.kind = IMAGE_CUBIN;
        error = cubin_extent(bytes, limit, &found.size, refusal);
    } else {
        found.kind = IMAGE_PTX;
        error = ptx_extent(bytes, limit, &found.size, refusal);
    }
    if (!error)
        *image = found;
    return error;
}

/* ---- copies ---- */

/*
 * The prelinked fatbins of a copy lie behind the main one, in the form that a file has: one after the other. So a copy
 * needs no array of pointers and could be written to a file as it is.
 */
static bool prelinked_size(const struct image *image, size_t i, size_t *size)
{
    enum coalesce_refusal ignored;

    return fatbin_extent(image->prelinked[i], SIZE_MAX, size, &ignored) == 0;
}

size_t image_copy_bytes(const struct image *image)
{
    size_t all = image->size, one;

    for (size_t i = 0; i < image->prelinked_count; i++)
        if (prelinked_size(image, i, &one))
            all += one;
    return all;
}

int image_copy(const struct image *image, struct image *copy)
{
    size_t size = image_copy_bytes(image), used = image->size, one;
    unsigned char *bytes = malloc(size + 1);

    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, image->bytes, image->size);
    for (size_t i = 0; i < image->prelinked_count; i++) {
        if (!prelinked_size(image, i, &one))
            continue;
        if (one > size - used) {
            free(bytes);
            return -EINVAL;
        }
        memcpy(bytes + used, image->prelinked[i], one);
        used += one;
    }
    bytes[used] = '\0'; /* so that a copied text can be given to the driver */
    *copy = (struct image){.kind = image->kind, .bytes = bytes, .size = used, .owned = bytes};
    return 0;
}

void image_finish(struct image *image)
{
    free(image->owned);
    *image = (struct image){0};
}

/* ---- names ---- */

/* Compares the string at `offset` of a table with `prefix` and `name` joined; the table may lack its last NUL. */
static bool string_is(const char *table, size_t size, size_t offset, const char *prefix, const char *name)
{
    size_t first = strlen(prefix), second = strlen(name);

    if (offset >= size || second > size || size - offset <= first + second)
        return false;
    table += offset;
    return memcmp(table, prefix, first) == 0 && memcmp(table + first, name, second + 1) == 0;
}

static bool cubin_has(const unsigned char *bytes, size_t size, const char *kernel)
{
    uint64_t count, names;
    Elf64_Shdr section;
    const char *table;
    size_t table_size;
    Elf64_Ehdr file;

    if (!cubin_header(bytes, size, &file) || !section_counts(bytes, size, &file, &count, &names) || names >= count ||
        file.e_shoff > size || (size - file.e_shoff) / sizeof(section) < count)
        return false;
    memcpy(&section, bytes + file.e_shoff + names * sizeof(section), sizeof(section));
    if (section.sh_type == SHT_NOBITS || section.sh_offset > size || section.sh_size > size - section.sh_offset)
        return false;
    table = (const char *)bytes + section.sh_offset;
    table_size = section.sh_size;
    for (uint64_t i = 1; i < count; i++) {
        memcpy(&section, bytes + file.e_shoff + i * sizeof(section), sizeof(section));
        if (section.sh_type == SHT_PROGBITS && string_is(table, table_size, section.sh_name, ".text.", kernel))
            return true;
    }
    return false;
}

bool image_code_has(const struct image_code *code, const char *kernel)
{
    return code->code == COALESCE_CUBIN ? cubin_has(code->bytes, code->size, kernel)
                                        : ptx_has_entry(code->bytes, code->size, kernel);
}

/* ---- choosing ---- */

struct entry {
    unsigned kind, arch;
    uint64_t flags, full;
    uint32_t packed;
    const unsigned char *payload;
    uint64_t payload_size;
};

/* Reads the entry at `*at` and steps over it. 1: there is one; 0: the end. */
static int next_entry(const unsigned char *bytes, size_t size, size_t *at, struct entry *entry)
{
    size_t left = size - *at;
    uint32_t header;

    if (left == 0)
        return 0;
    bytes += *at;
    if (left < ENTRY_HEADER)
        return -EINVAL;
    header = u32(bytes + 4);
    *entry = (struct entry){
        .kind = u16(bytes),
        .arch = u32(bytes + 28),
        .flags = u64(bytes + 40),
        .full = u64(bytes + 56),
        .packed = u32(bytes + 16),
        .payload = bytes + header,
        .payload_size = u64(bytes + 8),
    };
    if (header < ENTRY_HEADER || header > left || entry->payload_size > left - header)
        return -EINVAL;
    *at += header + (size_t)entry->payload_size;
    return 1;
}

/*
 * How well an entry suits the device; 0: not at all. Machine code runs on its own major architecture from its minor one
 * on, PTX on everything from its architecture on; "a" only there, "f" within the major one.
 */
static unsigned rank_of(const struct entry *entry, enum coalesce_code code, unsigned sm)
{
    bool family = code == COALESCE_CUBIN || entry->flags & FLAG_FAMILY;

    if (entry->kind != (code == COALESCE_CUBIN ? ENTRY_CUBIN : ENTRY_PTX) || !(entry->flags & FLAG_64_BIT))
        return 0;
    if (entry->arch == 0 || entry->arch > sm || (family && entry->arch / 10 != sm / 10))
        return 0;
    if (entry->flags & FLAG_SPECIFIC)
        return entry->arch == sm ? 4 * sm + 2 : 0;
    return 4 * entry->arch + (entry->flags & FLAG_FAMILY ? 1 : 0);
}

/* Bytes of a text in `size` bytes: padding and NULs at its end are no part of it. */
static size_t text_size(const void *bytes, size_t size)
{
    return strnlen(bytes, size);
}

static int unpack(const struct entry *entry, struct image_code *code, enum coalesce_refusal *refusal)
{
    void *owned;
    int error;

    if (entry->full > IMAGE_BYTES_MAX)
        return refuse(-ENOTSUP, COALESCE_IMAGE_LARGE, refusal);
    if (entry->packed == 0 || entry->packed > entry->payload_size || entry->full == 0 ||
        entry->full > (uint64_t)entry->packed * RATIO_MAX + RATIO_SLACK)
        return broken(refusal);
    owned = malloc((size_t)entry->full);
    if (!owned)
        return -ENOMEM;
    error = inflate_bytes(entry->flags & FLAG_LZ4 ? INFLATE_LZ4 : INFLATE_ZSTD, entry->payload, entry->packed, owned,
                          (size_t)entry->full);
    if (error) {
        free(owned);
        return error == -ENOSYS ? refuse(-ENOTSUP, COALESCE_COMPRESSION, refusal) : broken(refusal);
    }
    code->bytes = code->owned = owned;
    code->size = (size_t)entry->full;
    return 0;
}

static int entry_code(const struct entry *entry, struct image_code *code, enum coalesce_refusal *refusal)
{
    int error = 0;

    *code = (struct image_code){
        .code = entry->kind == ENTRY_CUBIN ? COALESCE_CUBIN : COALESCE_PTX,
        .bytes = entry->payload,
        .size = (size_t)entry->payload_size,
        .sm = entry->arch,
        .specific = (entry->flags & FLAG_SPECIFIC) != 0,
    };
    if (entry->flags & (FLAG_LZ4 | FLAG_ZSTD))
        error = unpack(entry, code, refusal);
    else if (entry->packed)
        error = refuse(-ENOTSUP, COALESCE_COMPRESSION, refusal);
    if (!error && code->code == COALESCE_PTX)
        code->size = text_size(code->bytes, code->size);
    return error;
}

/* The first entry of that rank with the kernel. 1: found; 0: there is none. */
static int find_ranked(const unsigned char *entries, size_t size, enum coalesce_code kind, unsigned sm, unsigned rank,
                       const char *kernel, struct image_code *code, enum coalesce_refusal *refusal)
{
    struct entry entry;
    size_t at = 0;

    while (next_entry(entries, size, &at, &entry) > 0) {
        struct image_code found;
        int error;

        if (rank_of(&entry, kind, sm) != rank)
            continue;
        error = entry_code(&entry, &found, refusal);
        if (error)
            return error;
        if (!kernel || image_code_has(&found, kernel)) {
            *code = found;
            return 1;
        }
        image_code_finish(&found);
    }
    return 0;
}

/* One fatbin, header included. -ENOTSUP with NO_CODE or NO_KERNEL: another one may have it. */
static int find_in_fatbin(const unsigned char *bytes, size_t size, unsigned sm, const char *kernel,
                          struct image_code *code, enum coalesce_refusal *refusal)
{
    size_t header = u16(bytes + 6), at = 0;
    unsigned best[2] = {0, 0};
    enum coalesce_code kind;
    struct entry entry;
    int found;

    while ((found = next_entry(bytes + header, size - header, &at, &entry)) > 0)
        for (kind = COALESCE_CUBIN; kind <= COALESCE_PTX; kind++)
            if (rank_of(&entry, kind, sm) > best[kind])
                best[kind] = rank_of(&entry, kind, sm);
    if (found < 0)
        return broken(refusal);
    kind = best[COALESCE_CUBIN] ? COALESCE_CUBIN : COALESCE_PTX;
    if (!best[kind])
        return refuse(-ENOTSUP, COALESCE_NO_CODE, refusal);
    found = find_ranked(bytes + header, size - header, kind, sm, best[kind], kernel, code, refusal);
    if (found < 0)
        return found;
    return found ? 0 : refuse(-ENOTSUP, COALESCE_NO_KERNEL, refusal);
}

/* Whether the search goes on in the next fatbin. A damaged one does not hide its neighbours from the driver either. */
static bool may_be_elsewhere(int error)
{
    return error == -ENOTSUP || error == -EINVAL;
}

static int find_in_fatbins(const struct image *image, unsigned sm, const char *kernel, struct image_code *code,
                           enum coalesce_refusal *refusal)
{
    enum coalesce_refusal why = COALESCE_NO_CODE, first = COALESCE_NONE;
    int error = -ENOTSUP, result = -ENOTSUP;
    size_t used = 0, one;

    while (used < image->size && fatbin_extent(image->bytes + used, image->size - used, &one, &why) == 0) {
        error = find_in_fatbin(image->bytes + used, one, sm, kernel, code, &why);
        if (!may_be_elsewhere(error))
            return error;
        used += one;
        if (first == COALESCE_NONE || first == COALESCE_NO_CODE) {
            first = why;
            result = error;
        }
    }
    for (size_t i = 0; i < image->prelinked_count; i++) {
        if (!prelinked_size(image, i, &one))
            continue;
        error = find_in_fatbin(image->prelinked[i], one, sm, kernel, code, &why);
        if (!may_be_elsewhere(error))
            return error;
    }
    return refuse(result, first == COALESCE_NONE ? COALESCE_IMAGE_BROKEN : first, refusal);
}

/* The architecture in a cubin's flags: bits 8 to 15 from ABI 8 (CUDA 13) on, bits 0 to 7 before. "a" is not in them. */
static unsigned cubin_sm(const unsigned char *bytes, size_t size)
{
    Elf64_Ehdr file;

    if (!cubin_header(bytes, size, &file))
        return 0;
    return file.e_ident[EI_ABIVERSION] >= 8 ? file.e_flags >> 8 & 0xff : file.e_flags & 0xff;
}

/* A bare cubin or text. The driver took it, so it runs on the device unless the caller asks about another one. */
static int find_bare(const struct image *image, unsigned sm, const char *kernel, struct image_code *code,
                     enum coalesce_refusal *refusal)
{
    bool cubin = image->kind == IMAGE_CUBIN;
    struct image_code found = {
        .code = cubin ? COALESCE_CUBIN : COALESCE_PTX,
        .bytes = image->bytes,
        .size = cubin ? image->size : text_size(image->bytes, image->size),
        .sm = cubin ? cubin_sm(image->bytes, image->size) : 0,
    };

    if (cubin && (found.sm / 10 != sm / 10 || found.sm > sm))
        return refuse(-ENOTSUP, COALESCE_NO_CODE, refusal);
    if (kernel && !image_code_has(&found, kernel))
        return refuse(-ENOTSUP, COALESCE_NO_KERNEL, refusal);
    *code = found;
    return 0;
}

int image_find(const struct image *image, unsigned sm, const char *kernel, struct image_code *code,
               enum coalesce_refusal *refusal)
{
    return image->kind == IMAGE_FATBIN ? find_in_fatbins(image, sm, kernel, code, refusal)
                                       : find_bare(image, sm, kernel, code, refusal);
}

void image_code_finish(struct image_code *code)
{
    free(code->owned);
    *code = (struct image_code){0};
}

/* ---- hash ---- */

static uint64_t rotate(uint64_t value, unsigned by)
{
    return value << by | value >> (64 - by);
}

static uint64_t final_mix(uint64_t value)
{
    value = (value ^ value >> 33) * 0xff51afd7ed558ccdULL;
    value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return value ^ value >> 33;
}

/* The constants are those of MurmurHash3_x64_128 (Austin Appleby, public domain). */
#define MURMUR_1 0x87c37b91114253d5ULL
#define MURMUR_2 0x4cf5ad432745937fULL

struct image_digest image_hash(const void *bytes, size_t size, uint32_t seed)
{
    uint64_t a = seed, b = seed, words[2];
    const unsigned char *at = bytes;

    for (size_t left = size; left >= sizeof(words); left -= sizeof(words), at += sizeof(words)) {
        memcpy(words, at, sizeof(words));
        a ^= rotate(words[0] * MURMUR_1, 31) * MURMUR_2;
        a = (rotate(a, 27) + b) * 5 + 0x52dce729;
        b ^= rotate(words[1] * MURMUR_2, 33) * MURMUR_1;
        b = (rotate(b, 31) + a) * 5 + 0x38495ab5;
    }
    memset(words, 0, sizeof(words));
    if (size % sizeof(words))
        memcpy(words, at, size % sizeof(words));
    b ^= rotate(words[1] * MURMUR_2, 33) * MURMUR_1; /* of zeros: nothing */
    a ^= rotate(words[0] * MURMUR_1, 31) * MURMUR_2;
    a ^= size;
    b ^= size;
    a += b;
    b += a;
    a = final_mix(a);
    b = final_mix(b);
    a += b;
    return (struct image_digest){{a, b + a}};
}
