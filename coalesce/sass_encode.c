/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions that the rewriter writes. Fields of a word, as far as they are used here:
 *
 *   11:0    opcode                            108:105  stall cycles
 *   14:12   guard, 15 its negation            109      must not yield
 *   23:16   result (uniform: 21:16)           112:110  scoreboard set until the result is written, 7: none
 *   31:24   first operand (uniform: 29:24)    115:113  scoreboard set until operands were read, 7: none
 *   63:32   immediate, or 39:32 (37:32) second operand
 *   53:38   offset, 58:54 bank of LDC and ULDC    121:116  scoreboards to wait for
 *   53:40   the same in units of 4, of arithmetic
 *   71:64   third operand (uniform: 69:64)    91       uniform operand, or cx
 *
 * Patterns are ptxas 13.0 output for sm_90 with the registers taken out. All but the following ran on an H200 as part
 * of a prologue: UIMAD, UIMAD.WIDE with a register, UMOV, UIADD3 of two registers, IADD3, S2R, ISETP, EXIT.
 */
#include "coalesce/sass.h"

enum { CONTROL_SHIFT = 41, BIT_91 = 1 << 27 };

static uint64_t control_bits(struct sass_control control)
{
    unsigned write = control.write ? control.write - 1u : 7;

    return (uint64_t)(control.stall | (unsigned)control.stay << 4 | write << 5 | 7u << 8 | (unsigned)control.wait << 11)
           << CONTROL_SHIFT;
}

struct sass_word sass_with_control(struct sass_word word, struct sass_control control)
{
    word.hi = (word.hi & ((UINT64_C(1) << CONTROL_SHIFT) - 1)) | control_bits(control);
    return word;
}

struct sass_word sass_with_guard(struct sass_word word, struct sass_word like)
{
    word.lo = (word.lo & ~UINT64_C(0xf000)) | (like.lo & 0xf000);
    return word;
}

uint8_t sass_wait_mask(struct sass_word word)
{
    return word.hi >> (CONTROL_SHIFT + 11) & 63;
}

uint8_t sass_stall(struct sass_word word)
{
    return word.hi >> CONTROL_SHIFT & 15;
}

static uint64_t fields(uint64_t d, uint64_t a, uint64_t b)
{
    return d << 16 | a << 24 | b << 32;
}

struct sass_word sass_s2ur(unsigned d, unsigned special)
{
    return (struct sass_word){0x79c3 | fields(d, 0, 0), (uint64_t)special << 8};
}

struct sass_word sass_s2r(unsigned d, unsigned special)
{
    return (struct sass_word){0x7919 | fields(d, 0, 0), (uint64_t)special << 8};
}

struct sass_word sass_uldc(unsigned d, uint32_t offset, bool wide)
{
    return (struct sass_word){0x7ab9 | fields(d, 0, 0) | (uint64_t)offset << 38, wide ? 0xa00 : 0x800};
}

struct sass_word sass_uldc_cx(unsigned d, unsigned handle, uint32_t offset)
{
    return (struct sass_word){0x7ab9 | fields(d, handle, 0) | (uint64_t)offset << 38, 0x800 | BIT_91};
}

struct sass_word sass_uldc_indexed(unsigned d, unsigned index, uint32_t offset)
{
    return (struct sass_word){0x7abb | fields(d, index, 0) | (uint64_t)offset << 38, 0x800 | BIT_91};
}

struct sass_word sass_umov(unsigned d, unsigned a)
{
    return (struct sass_word){0x7c82 | fields(d, 0, a), BIT_91};
}

struct sass_word sass_umov_imm(unsigned d, uint32_t value)
{
    return (struct sass_word){0x7882 | fields(d, 0, value), 0};
}

struct sass_word sass_mov(unsigned d, unsigned uniform)
{
    return (struct sass_word){0x7c02 | fields(d, 0, uniform), 0xf00 | BIT_91};
}

struct sass_word sass_mov_imm(unsigned d, uint32_t value)
{
    return (struct sass_word){0x7802 | fields(d, 0, value), 0xf00};
}

struct sass_word sass_uimad_wide_imm(unsigned d, unsigned a, uint32_t b, unsigned c)
{
    return (struct sass_word){0x78a5 | fields(d, a, b), 0xf8e0000 | c};
}

struct sass_word sass_uimad_wide(unsigned d, unsigned a, unsigned b, unsigned c)
{
    return (struct sass_word){0x72a5 | fields(d, a, b), 0xf8e0000 | c};
}

struct sass_word sass_uimad(unsigned d, unsigned a, unsigned b, unsigned c)
{
    return (struct sass_word){0x72a4 | fields(d, a, b), 0xf8e0200 | c};
}

struct sass_word sass_uimad_imm(unsigned d, unsigned a, uint32_t b)
{
    return (struct sass_word){0x78a4 | fields(d, a, b), 0xf8e0200 | SASS_URZ};
}

struct sass_word sass_uiadd(unsigned d, unsigned a, unsigned b)
{
    return (struct sass_word){0x7290 | fields(d, a, b), 0xfffe000 | SASS_URZ};
}

struct sass_word sass_uiadd_imm(unsigned d, uint32_t b, unsigned a)
{
    return (struct sass_word){0x7890 | fields(d, a, b), 0xff1e000 | SASS_URZ};
}

struct sass_word sass_uiadd_carry(unsigned d, unsigned b)
{
    return (struct sass_word){0x7290 | fields(d, SASS_URZ, b), 0x87fe400 | SASS_URZ};
}

struct sass_word sass_shift_pair(unsigned d, unsigned low, unsigned high, unsigned n)
{
    return (struct sass_word){0x7899 | fields(d, low, n), 0x8001200 | high};
}

struct sass_word sass_shift(unsigned d, unsigned a, unsigned n)
{
    return (struct sass_word){0x7899 | fields(d, SASS_URZ, n), 0x8011600 | a};
}

struct sass_word sass_uor_imm(unsigned d, unsigned a, uint32_t b)
{
    return (struct sass_word){0x7892 | fields(d, a, b), 0xf8efc00 | SASS_URZ};
}

struct sass_word sass_iadd(unsigned d, unsigned a, unsigned b)
{
    return (struct sass_word){0x7210 | fields(d, a, b), 0x7ffe000 | SASS_RZ};
}

struct sass_word sass_wide_from_uniform(unsigned d, unsigned pair)
{
    return (struct sass_word){0x7e25 | fields(d, SASS_RZ, pair), 0xf8e0000 | SASS_RZ};
}

struct sass_word sass_compare_ge(unsigned a, unsigned uniform)
{
    return (struct sass_word){0x7c0c | fields(0, a, uniform), 0xbf06070};
}

struct sass_word sass_exit_if_p0(void)
{
    return sass_with_control((struct sass_word){0x094d, 0x3800000}, (struct sass_control){.stall = 5, .stay = true});
}

/* Distance from the next word, in units of 4 bytes: in bits 81:34; since sm_90 its low byte is in 23:16 instead. */
struct sass_word sass_bra(const struct sass_target *target, uint64_t from, uint64_t to)
{
    uint64_t distance = (uint64_t)((int64_t)(to - from - SASS_WORD) >> 2), low = 0, high = distance;

    if (target->split_branch) {
        low = distance & 0xff;
        high = distance >> 8;
    }
    return sass_with_control((struct sass_word){0x7947 | low << 16 | high << 34, 0x3800000 | (high >> 30 & 0x3ffff)},
                             (struct sass_control){.stall = 5, .stay = true});
}

struct sass_word sass_nop(void)
{
    return (struct sass_word){0x7918, UINT64_C(0x000fc00000000000)};
}

struct sass_word sass_to_cx(struct sass_word word, enum sass_kind kind, unsigned handle, uint32_t offset)
{
    uint64_t index = word.lo >> 24 & 0xff;

    word.hi |= BIT_91;
    if (kind == SASS_ALU) {
        word.lo = (word.lo & ~(UINT64_C(0x7ffff) << 40)) | (uint64_t)(offset / 4) << 40;
        word.lo = (word.lo & ~(UINT64_C(0xff) << 32)) | (uint64_t)handle << 32;
        return word;
    }
    word.lo &= ~(UINT64_C(0xff) << 24) & ~(UINT64_C(0x1fffff) << 38);
    word.lo |= (uint64_t)handle << 24 | (uint64_t)offset << 38;
    if (kind == SASS_LDC) { /* the only one whose opcode changes; its index moves to the third operand */
        word.lo = (word.lo & ~UINT64_C(0xfff)) | 0x582;
        word.hi = (word.hi & ~UINT64_C(0xff)) | index;
    }
    return word;
}

struct sass_word sass_to_indexed(struct sass_word word, enum sass_kind kind, unsigned index, uint32_t offset)
{
    word.lo &= ~(UINT64_C(0xff) << 24) & ~(UINT64_C(0xffff) << 38);
    word.lo |= (uint64_t)index << 24 | (uint64_t)offset << 38;
    if (kind == SASS_ULDC || kind == SASS_ULDC_INDEXED) {
        word.lo = (word.lo & ~UINT64_C(0xfff)) | 0xabb;
        word.hi |= BIT_91;
    }
    return word;
}
