/* SPDX-License-Identifier: Apache-2.0
 *
 * Cubins: the ELF files that hold machine code for one architecture. A reader that validates everything it gives out,
 * and a builder that writes a part of a cubin, or all of it, with some sections changed.
 *
 * The reader copies no bytes: names and data point into the caller's image, which must outlive it. After cubin_open
 * all of these hold, so that users need not check again:
 *   - data of a section lies in the image (NULL without data), names end in the image
 *   - sections with code have a size that is a multiple of a word (16 bytes)
 *   - link and info of sections that are followed are indexes of sections or symbols
 *   - records of information sections and relocations end within their section; a relocation's symbol exists, and
 *     four bytes at its place exist (but not those of debug information)
 *
 * Layouts were read off ptxas 13.0 output, and off NVIDIA's libraries for ABI versions 7 and 8.
 * Any thread; one cubin is used by one thread at a time. Errors are negative errno, see coalesce.h.
 */
#ifndef COISSUE_COALESCE_CUBIN_H
#define COISSUE_COALESCE_CUBIN_H

#include "coalesce/coalesce.h"

enum {
    CUBIN_PROGBITS = 1,
    CUBIN_SYMTAB = 2,
    CUBIN_STRTAB = 3,
    CUBIN_RELA = 4,
    CUBIN_NOBITS = 8,
    CUBIN_REL = 9,
    CUBIN_INFO = 0x70000000,      /* .nv.info, .nv.info.KERNEL */
    CUBIN_CALLGRAPH = 0x70000001, /* pairs of symbol indexes; from -4 to -1: marks */
};

enum { CUBIN_WRITE = 1, CUBIN_ALLOC = 2, CUBIN_EXECUTE = 4, CUBIN_INFO_LINK = 0x40 };

struct cubin_section {
    const char *name;
    const unsigned char *data; /* NULL: none, or not in the file */
    uint64_t flags, size, align, entry_size;
    uint32_t type, link, info;
};

enum { CUBIN_SYMBOL_OBJECT = 1, CUBIN_SYMBOL_FUNCTION = 2, CUBIN_SYMBOL_SECTION = 3 };

struct cubin_symbol {
    const char *name;
    uint64_t value, size;
    uint16_t section; /* 0: not defined here */
    uint8_t info, other;
};

struct cubin {
    const unsigned char *bytes;
    size_t size;
    unsigned sm; /* 90 for compute capability 9.0 */
    uint32_t section_count, symbol_count;
    struct cubin_section *sections; /* [0] is empty */
    struct cubin_symbol *symbols;   /* [0] is empty */
    uint32_t symbol_table, string_table, name_table;
};

/* -EINVAL or -ENOTSUP and `*refusal`; -ENOMEM. */
int cubin_open(struct cubin *cubin, const void *bytes, size_t size, enum coalesce_refusal *refusal);
void cubin_close(struct cubin *cubin);

/* Index of the kernel's section, 0 if there is none. */
uint32_t cubin_find_kernel(const struct cubin *cubin, const char *name, uint32_t *symbol);

/* One record of an information section. */
struct cubin_record {
    uint8_t format, attribute;
    uint16_t value;               /* formats 1 to 3 */
    uint32_t size;                /* of the payload; 0 for formats 1 to 3 */
    const unsigned char *payload; /* format 4 */
};

enum {
    /* Attributes ("EIATTR"), numbers as ptxas 13.0 writes them. */
    CUBIN_ATTR_IMAGE_SLOT = 0x02,
    CUBIN_ATTR_CTAID_Z_USED = 0x04,
    CUBIN_ATTR_PARAM_CBANK = 0x0a,
    CUBIN_ATTR_EXTERNS = 0x0f,
    CUBIN_ATTR_FRAME_SIZE = 0x11,
    CUBIN_ATTR_MIN_STACK = 0x12,
    CUBIN_ATTR_KPARAM = 0x17,
    CUBIN_ATTR_CBANK_PARAM_SIZE = 0x19,
    CUBIN_ATTR_CNP_WRAPPER = 0x1f,
    CUBIN_ATTR_CNP_PATCH = 0x20,
    CUBIN_ATTR_MAX_STACK = 0x23,
    CUBIN_ATTR_REGCOUNT = 0x2f,
    CUBIN_ATTR_CTA_PER_CLUSTER = 0x3d,
    CUBIN_ATTR_EXPLICIT_CLUSTER = 0x3e,
    CUBIN_ATTR_KPARAM_V2 = 0x45,
    CUBIN_ATTR_SYSCALLS = 0x46,
};

/* Walks a section of type CUBIN_INFO: start with `*at` 0; false at the end. */
bool cubin_next_record(const struct cubin_section *section, size_t *at, struct cubin_record *record);

struct cubin_relocation {
    uint64_t offset;
    uint32_t symbol, type;
    int64_t addend;
};

uint32_t cubin_relocation_count(const struct cubin_section *section); /* 0 unless CUBIN_RELA or CUBIN_REL */
struct cubin_relocation cubin_relocation(const struct cubin_section *section, uint32_t index);

/* Relocations of debug information: not validated, so nobody may follow them. */
bool cubin_is_for_debugging(const struct cubin *cubin, const struct cubin_section *section);

/* Little-endian fields at any address. */
uint16_t cubin_get16(const unsigned char *at);
uint32_t cubin_get32(const unsigned char *at);
uint64_t cubin_get64(const unsigned char *at);
void cubin_put16(unsigned char *at, uint16_t value);
void cubin_put32(unsigned char *at, uint32_t value);
void cubin_put64(unsigned char *at, uint64_t value);

/* ---- building ---- */

/* What goes into the new cubin. Indexes are those of `cubin`, in changed data too: the builder renumbers. */
struct cubin_plan {
    const struct cubin *cubin;
    bool *keep_section;             /* [section_count] */
    bool *keep_symbol;              /* [symbol_count] */
    struct cubin_change *changes;   /* [section_count]; data NULL: as it is. Owned. */
    uint32_t kernel, kernel_symbol; /* the symbol's size becomes that of its section */
    bool whole;                     /* records about other kernels stay */
};

struct cubin_change {
    unsigned char *data;
    size_t size;
};

/* Keeps nothing, changes nothing. */
int cubin_plan_init(struct cubin_plan *plan, const struct cubin *cubin, uint32_t kernel, uint32_t kernel_symbol);
void cubin_plan_finish(struct cubin_plan *plan);

/* Own copy of a section's data to change, `size` bytes (zeros behind the old end), once a section; NULL: no memory. */
unsigned char *cubin_plan_change(struct cubin_plan *plan, uint32_t section, size_t size);

void cubin_plan_keep_all(struct cubin_plan *plan);

/*
 * Keeps what the kept sections need: sections that belong to kept code, relocations of kept sections, what those refer
 * to.
 */
void cubin_plan_grow(struct cubin_plan *plan);

/*
 * The same, and symbols; the plan is complete then. -ENOTSUP: some section or record is not understood well enough to
 * leave others out.
 */
int cubin_plan_close(struct cubin_plan *plan);

/* The new cubin, for free(). */
int cubin_build(const struct cubin_plan *plan, void **image, size_t *size);

#endif
