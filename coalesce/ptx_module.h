/* SPDX-License-Identifier: Apache-2.0
 *
 * The outline of a PTX module: its items in order, where each begins and ends, and who has which name. Bodies are not
 * looked into, but for what they mention: ptx_module_reach() marks all that one kernel can get at.
 *
 * Everything points into the text, which must stay. Work is n log n in its size.
 */
#ifndef COISSUE_COALESCE_PTX_MODULE_H
#define COISSUE_COALESCE_PTX_MODULE_H

#include "coalesce/coalesce.h"
#include "coalesce/ptx_lex.h"

enum {
    PTX_BYTES_MAX = 64 << 20, /* of a text: larger ones take the compiler minutes */
    PTX_NAMES_MAX = 1 << 20,  /* of a module, and of a body: so many take no compiler, but memory */
};

struct ptx_span {
    const char *at;
    size_t length;
};

enum ptx_item_kind {
    PTX_ITEM_HEADER, /* .version, .target, .address_size, .pragma: always kept */
    PTX_ITEM_GLOBAL,
    PTX_ITEM_CONST,
    PTX_ITEM_SHARED,
    PTX_ITEM_TEXTURE, /* .texref, .samplerref, .surfref */
    PTX_ITEM_FUNCTION,
    PTX_ITEM_ENTRY,
    PTX_ITEM_ALIAS,
};

struct ptx_item {
    enum ptx_item_kind kind;
    bool external;        /* .extern */
    bool reached;         /* by the kernel: ptx_module_reach */
    struct ptx_span name; /* of functions and entries */
    const char *start, *end;
    const char *signature; /* functions and entries: behind the word .func or .entry */
    const char *body;      /* its '{'; NULL if it is only declared */
};

struct ptx_symbol {
    struct ptx_span name;
    uint32_t item;
    uint32_t definition; /* the item that says what the name is, of all that declare it */
};

struct ptx_module {
    const char *text;
    size_t size;
    struct ptx_item *items; /* in the order of the text */
    size_t item_count, item_room;
    struct ptx_symbol *symbols; /* sorted by name, then by item; a name may be declared several times */
    size_t symbol_count, symbol_room;
    unsigned version;   /* 81 for 8.1 */
    unsigned target;    /* 90 for sm_90 */
    char target_suffix; /* 'a', 'f' or 0 */
    bool debug;         /* .target ..., debug */
    bool wide;          /* .address_size 64 */
};

/* -EINVAL or -ENOTSUP with a refusal, -ENOMEM. `module` may be finished in each case. */
int ptx_module_read(struct ptx_module *module, const char *text, size_t size, enum coalesce_refusal *refusal);
void ptx_module_finish(struct ptx_module *module);

/* The first symbol of that name; those of the same name follow. NULL: there is none. */
const struct ptx_symbol *ptx_module_find(const struct ptx_module *module, struct ptx_span name);

/* The item that says what the name is: its definition if there is one. NULL: no such symbol. */
struct ptx_item *ptx_module_item(const struct ptx_module *module, struct ptx_span name);

/* Marks what the item and whatever it mentions mention. */
int ptx_module_reach(struct ptx_module *module, struct ptx_item *from);

/* Order of names; 0: equal. */
int ptx_span_compare(struct ptx_span a, struct ptx_span b);

static inline struct ptx_span ptx_span_of(const struct ptx_token *token)
{
    return (struct ptx_span){token->at, token->length};
}

/* Makes room for one more thing in a growing array. */
int ptx_grow(void *array, size_t count, size_t *room, size_t size);

/* The value of a plain integer as PTX writes it: 12, 0x1f, 017, 0b11, with or without U. False: it is none. */
bool ptx_number(const struct ptx_token *token, uint64_t *value);

/* The type's size in bytes: ".b8" 1, ".f64" 8, ".b128" 16; 0: no type that memory holds. */
uint32_t ptx_type_bytes(const struct ptx_token *token);

#endif
