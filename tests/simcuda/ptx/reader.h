/* SPDX-License-Identifier: Apache-2.0
 *
 * State while a module is read: shared by parse.c (module level), body.c (bodies, operands) and decode.c
 * (instructions). Functions return false after `reader_fail`; the first failure is the one that is reported.
 */
#ifndef COISSUE_TESTS_SIMCUDA_PTX_READER_H
#define COISSUE_TESTS_SIMCUDA_PTX_READER_H

#include "tests/simcuda/ptx/lex.h"

enum symbol_kind {
    SYM_GLOBAL, /* index: module.globals */
    SYM_SHARED, /* module scope: placed at first use; body scope: at once */
    SYM_SHARED_DYNAMIC,
    SYM_LOCAL,    /* offset in the frame */
    SYM_PARAM,    /* of a kernel: offset in the parameters */
    SYM_FRAME,    /* parameter or result of a function, or .param variable of a call: offset in the frame */
    SYM_FUNCTION, /* index: module.functions */
    SYM_REGISTER,
    SYM_REGISTERS, /* name<count> */
    SYM_LABEL,
    SYM_TARGETS, /* .branchtargets: index: function.tables */
    SYM_PROTOTYPE,
};

struct symbol {
    struct text_span name;
    uint32_t scope, next; /* next: chain of the bucket, index + 1 */
    uint32_t hash;
    enum symbol_kind kind;
    enum ptype type;
    uint32_t index, count;
    uint64_t offset, size;
    uint32_t align;
    uint32_t owner; /* SYM_SHARED of module scope: stamp of the body that placed it last; 0 = none */
    bool common;    /* ... placed in module.shared_common */
    uint32_t *ids;  /* SYM_REGISTERS: register number + 1 of each, 0 = not used yet */
};

struct symbols {
    struct symbol *items;
    uint32_t count, capacity;
    uint32_t *buckets;
    uint32_t bucket_count; /* a power of two, or 0 */
};

struct reader {
    struct ptx_module *module;
    const char *text;
    size_t length;
    unsigned device; /* ptx_options.max_target */
    struct lexer lex;
    struct symbols symbols;
    uint32_t code_capacity, function_capacity, kernel_capacity, global_capacity;
    int error;
    char *message;
    size_t message_size;
};

__attribute__((format(printf, 4, 5))) bool reader_fail(struct reader *reader, int error, uint32_t line,
                                                       const char *format, ...);
bool reader_nomem(struct reader *reader);
/* "line N: expected WHAT before 'TOKEN'" */
bool reader_expected(struct reader *reader, const char *what);
bool reader_punct(struct reader *reader, char c); /* takes this character or fails */
bool reader_word(struct reader *reader, const char *what, struct text_span *out);
bool reader_integer(struct reader *reader, const char *what, uint64_t max, uint64_t *out);

/* Doubles *items when count has reached capacity. */
bool reader_grow(struct reader *reader, void **items, uint32_t *capacity, uint32_t count, size_t size);
char *span_copy(struct text_span span);

struct symbol *symbol_find(struct symbols *symbols, struct text_span name, uint32_t scope);
/* NULL: out of memory. The pointer is good until the next symbol_add. */
struct symbol *symbol_add(struct symbols *symbols, struct text_span name, uint32_t scope);
void symbols_truncate(struct symbols *symbols, uint32_t count);
void symbols_finish(struct symbols *symbols);

enum ptype type_from_span(struct text_span span); /* T_NONE if it is no type */

/* One variable declaration after its state space: [.align n] [.v2|.v4] .type name dims. */
struct variable {
    struct text_span name;
    enum ptype type;
    uint32_t vector, align;
    uint64_t element_bytes; /* of one (vector) element */
    uint32_t dims;
    uint64_t dim[8]; /* 0: [] */
    uint64_t bytes;  /* 0 when a dimension is open */
    uint32_t line;
};

/* The part before the name; `align` etc. are kept for further names after a comma. */
bool reader_variable_type(struct reader *reader, struct variable *variable);
bool reader_variable_name(struct reader *reader, struct variable *variable);

/* parse.c: .shared and .global/.const variables are legal in bodies too. `scope` 0 = module. */
bool reader_global(struct reader *reader, bool is_const, bool visible, bool is_extern, uint32_t scope);

/* ---- bodies ---- */

enum operand_kind {
    OPD_REGISTER,
    OPD_PREDICATE,
    OPD_IMMEDIATE,
    OPD_SYMBOL,
    OPD_ADDRESS,
    OPD_VECTOR,
    OPD_SPECIAL,
    OPD_SINK, /* _ */
    OPD_NAME, /* a label or something else that is no symbol yet */
    OPD_LIST, /* ( .. ) of a call */
};

struct operand {
    enum operand_kind kind;
    bool negated;        /* !p */
    enum ptype type;     /* as declared */
    uint32_t reg;        /* register number << 2 | pool; predicates: number */
    uint64_t value;      /* immediate */
    uint8_t float_width; /* immediate: 0 integer, 32, 64; 1 = decimal, value is a double */
    enum sreg special;
    struct text_span name;
    uint32_t symbol; /* index in symbols */
    int64_t offset;  /* address, symbol+offset */
    bool has_pair;   /* p|q, r|p */
    uint32_t pair;   /* predicate number, 0 = sink */
    /* vector and list: elements in body.elements */
    uint32_t first, count;
    uint32_t base; /* address: operand for the base (OPD_*) in body.elements, or UINT32_MAX for a plain number */
};

enum { OPERANDS_MAX = 8, MODIFIERS_MAX = 16, ELEMENTS_MAX = 512, MESSAGE_WORD_MAX = 64 };

struct fixup {
    uint32_t pc; /* instruction whose imm is the target, or UINT32_MAX: entry `slot` of function.targets */
    uint32_t slot;
    uint32_t scope, line;
    struct text_span name;
};

struct body {
    struct reader *reader;
    struct function *function;
    uint32_t stamp; /* unique per body */
    /* scopes */
    struct scope {
        uint32_t parent, frame; /* frame bytes in use where it began */
    } * scopes;
    uint32_t scope_count, scope_capacity;
    uint32_t scope, depth, nesting; /* nesting: of operand lists */
    /* registers in use */
    uint32_t r32, r64, preds;
    uint64_t declared;
    uint32_t frame, frame_max; /* bytes in use here, at most */
    uint32_t first_symbol;
    struct fixup *fixups;
    uint32_t fixup_count, fixup_capacity;
    uint32_t constant_capacity, slot_capacity, call_capacity, table_capacity, target_capacity;
    uint32_t *constant_index; /* hash of function.constants, index + 1 */
    uint32_t constant_index_size;
    /* the statement */
    uint32_t line;
    uint16_t guard;
    struct text_span opcode;
    struct text_span modifiers[MODIFIERS_MAX];
    bool used[MODIFIERS_MAX];
    uint32_t modifier_count;
    struct operand operands[OPERANDS_MAX];
    uint32_t operand_count;
    struct operand elements[ELEMENTS_MAX];
    uint32_t element_count;
};

/* body.c */
bool body_read(struct reader *reader, struct function *function, uint32_t stamp);
struct symbol *body_lookup(struct body *body, struct text_span name, uint32_t scope);
uint32_t body_temp(struct body *body, bool wide); /* a fresh register, number << 2 | pool */
bool body_constant(struct body *body, uint64_t value, bool wide, int32_t global, uint32_t *out);
struct insn *body_emit(struct body *body, enum op op); /* NULL: out of memory; guard and line are set */
bool body_fixup(struct body *body, uint32_t pc, uint32_t slot, struct text_span name);
/* The whole instruction as written, cut to fit, for messages. */
const char *body_opcode(const struct body *body, char buffer[MESSAGE_WORD_MAX]);
__attribute__((format(printf, 3, 4))) bool body_fail(struct body *body, int error, const char *format, ...);
/* Where a shared variable lies in this kernel (places it at first use). */
bool body_shared_offset(struct body *body, uint32_t symbol, uint64_t *out);
bool body_add_frame(struct body *body, uint64_t bytes, uint32_t align, uint32_t *out);

/* decode.c: the statement in `body` to instructions. */
bool decode_instruction(struct body *body);

#endif
