/* SPDX-License-Identifier: Apache-2.0
 *
 * What the decoders of instructions share. A decoder takes the modifiers that it knows; what is left over is an error,
 * so nothing is ignored by accident. All return false after an error was reported.
 */
#ifndef COISSUE_TESTS_SIMCUDA_PTX_DECODE_H
#define COISSUE_TESTS_SIMCUDA_PTX_DECODE_H

#include "tests/simcuda/ptx/reader.h"

struct entry;
typedef bool decode_fn(struct body *body, const struct entry *entry);

/* What the first word of an opcode means. */
struct entry {
    const char *name;
    decode_fn *decode;
    lane_fn *integer, *real; /* what the decoders of arithmetic need */
    uint8_t sources, arg;
};

/* ---- modifiers: each counts once ---- */

bool dec_take(struct body *body, const char *word);
bool dec_has_modifier(const struct body *body, const char *word);            /* without taking it */
int dec_take_one_of(struct body *body, const char *const *words, int count); /* index or -1 */
enum ptype dec_take_type(struct body *body);                                 /* the next type, or T_NONE */
void dec_take_prefixed(struct body *body, const char *prefix);
void dec_take_everything(struct body *body);
/* .weak .relaxed .acquire ... with scopes and cache hints, to flags */
uint16_t dec_take_ordering(struct body *body);
bool dec_finish(struct body *body); /* fails if one is left */

/* ---- errors: always false ---- */

bool dec_wrong_type(struct body *body);
bool dec_not_supported(struct body *body);
bool dec_bad_operand(struct body *body, const char *what);

/* ---- operands ---- */

bool dec_want(struct body *body, uint32_t least, uint32_t most); /* number of operands */
bool dec_is_integer(enum ptype type);
/* `relaxed`: loads, stores and conversions may use wider registers than their type; all else needs the exact size. */
bool dec_check_size(struct body *body, const struct operand *operand, enum ptype type, bool relaxed);
/* May emit instructions that make the operand; the result is for insn.o. */
bool dec_source(struct body *body, const struct operand *operand, enum ptype type, bool relaxed, uint32_t *out);
bool dec_destination(struct body *body, const struct operand *operand, enum ptype type, bool relaxed, uint32_t *out);
bool dec_predicate_source(struct body *body, const struct operand *operand, uint16_t *out);
bool dec_predicate_destination(struct body *body, const struct operand *operand, uint16_t *out);
/* base + offset in a fresh 64-bit register */
bool dec_add_offset(struct body *body, uint32_t base, int64_t offset, uint32_t *out);
/* The address of a variable, in the space that it lives in. */
bool dec_symbol_address(struct body *body, const struct operand *operand, bool wide, uint32_t *out);
/* operands[0] = dest, operands[1 .. n] = sources of the given types, to one instruction; NULL after an error */
struct insn *dec_emit(struct body *body, enum op op, enum ptype dest, const enum ptype *types, uint32_t n,
                      bool relaxed);

/* ---- decoders, by file ---- */

/* decode_math.c */
decode_fn decode_addsub, decode_addsubc, decode_bitfield, decode_bits, decode_copysign, decode_cvt, decode_divide,
    decode_dot, decode_fma, decode_function, decode_logic, decode_lop3, decode_madc, decode_misc, decode_mov,
    decode_mul24, decode_multiply, decode_prmt, decode_selp, decode_set, decode_setp, decode_shf, decode_shift,
    decode_signs, decode_slct, decode_testp;
/* decode_memory.c */
decode_fn decode_atom, decode_cp, decode_createpolicy, decode_cvta, decode_fence, decode_isspacep, decode_mbarrier,
    decode_memory, decode_nop;
/* decode_flow.c */
decode_fn decode_activemask, decode_bar, decode_bra, decode_brx, decode_call, decode_elect, decode_match,
    decode_nanosleep, decode_plain, decode_redux, decode_shfl, decode_vote;

#endif
