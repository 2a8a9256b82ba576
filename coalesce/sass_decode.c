/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of one instruction. Positions are in the table at the top of sass_encode.c.
 */
#include "coalesce/sass.h"

enum { NONE, WRITES };

enum {
    OPCODE_BITS = 12,
    BIT_91 = 1 << OPCODE_BITS, /* in the index of the table */
    /* Bits 11:9 of an opcode of arithmetic: of what kind its operands are. */
    FORM_SHIFT = 9,
    BASE_MASK = (1 << FORM_SHIFT) - 1,
    FORM_REGISTER_CONSTANT = 3, /* third operand from a constant bank */
    FORM_CONSTANT_REGISTER = 5, /* second */
};

struct op {
    const char *name;
    bool alu, writes_uniform;
};

static const struct op table[2 * BIT_91] = {
#define ALU(base, text) /* all seven forms, and again with bit 91: uniform register or cx */                           \
    [(base) | 1 << 9] = {text, true, false}, [(base) | 2 << 9] = {text, true, false},                                  \
                   [(base) | 3 << 9] = {text, true, false}, [(base) | 4 << 9] = {text, true, false},                   \
                   [(base) | 5 << 9] = {text, true, false}, [BIT_91 | (base) | 3 << 9] = {text, true, false},          \
                   [BIT_91 | (base) | 5 << 9] = {text, true, false}, [BIT_91 | (base) | 6 << 9] = {text, true, false}, \
                   [BIT_91 | (base) | 7 << 9] = {text, true, false},
#define OP(opcode, bit91, ur, text) [(opcode) | (bit91)*BIT_91] = {text, false, ur},
#include "coalesce/sass.def"
};

static const struct op *find(uint16_t opcode, bool bit91)
{
    return &table[(opcode & (BIT_91 - 1)) | (bit91 ? BIT_91 : 0)];
}

const char *sass_name(uint16_t opcode, bool bit91)
{
    return find(opcode, bit91)->name;
}

bool sass_is_control(uint16_t opcode)
{
    return (opcode & 0xff) >= 0x40 && (opcode & 0xff) <= 0x5f && (opcode & 0x100);
}

/* Sizes of LDC and ULDC, bits 75:73: u8, s8, u16, s16, 32, 64. 0: none of them. */
static uint8_t load_bytes(struct sass_word word)
{
    static const uint8_t bytes[8] = {1, 1, 2, 2, 4, 8, 0, 0};

    return bytes[word.hi >> 9 & 7];
}

/*
 * Bytes that an operand of arithmetic reads: double precision, and sums of wide products, take 64 bits. Conversions may
 * take either; the larger is assumed where it does not matter for what is legal.
 */
static uint8_t operand_bytes(uint16_t opcode)
{
    uint16_t base = opcode & BASE_MASK;
    bool third = opcode >> FORM_SHIFT == FORM_REGISTER_CONSTANT;

    return base == 0x028 || base == 0x029 || base == 0x02a || base == 0x02b || (base == 0x025 && third) || base >= 0x110
               ? 8
               : 4;
}

static void decode_load(struct sass_instruction *instruction, struct sass_word word)
{
    instruction->constant = true;
    instruction->bank = word.lo >> 54 & 31;
    instruction->offset = word.lo >> 38 & 0xffff;
    instruction->bytes = load_bytes(word);
    if (instruction->kind == SASS_LDC)
        instruction->indexed = (word.lo >> 24 & 0xff) != SASS_RZ;
    if (instruction->kind == SASS_ULDC_INDEXED)
        instruction->indexed = (word.lo >> 24 & 63) != SASS_URZ;
}

static void decode_operand(struct sass_instruction *instruction, struct sass_word word)
{
    unsigned form = instruction->opcode >> FORM_SHIFT;

    if (instruction->bit91 || (form != FORM_REGISTER_CONSTANT && form != FORM_CONSTANT_REGISTER))
        return;
    instruction->constant = true;
    instruction->bank = word.lo >> 54 & 31;
    instruction->offset = (word.lo >> 40 & 0x3fff) * 4;
    instruction->bytes = operand_bytes(instruction->opcode);
}

static void decode_special(struct sass_instruction *instruction, struct sass_word word)
{
    instruction->special = word.hi >> 8 & 0xff;
    if (instruction->opcode == 0x9c3)
        instruction->kind = SASS_S2UR;
    else if (instruction->opcode == 0x805 && (word.hi >> 16 & 1)) /* bit 80: 64 bits */
        instruction->kind = SASS_CS2R;
    else
        instruction->kind = SASS_S2R;
}

struct sass_instruction sass_decode(struct sass_word word)
{
    struct sass_instruction instruction = {
        .kind = SASS_OTHER,
        .opcode = word.lo & 0xfff,
        .bit91 = word.hi >> 27 & 1,
        .special = -1,
    };
    const struct op *op = find(instruction.opcode, instruction.bit91);
    unsigned target = word.lo >> 16 & 63;

    if (!op->name)
        instruction.kind = SASS_UNKNOWN;
    else if (op->alu)
        instruction.kind = SASS_ALU;
    else if (instruction.opcode == 0xb82)
        instruction.kind = SASS_LDC;
    else if (instruction.opcode == 0xab9 && !instruction.bit91)
        instruction.kind = SASS_ULDC;
    else if (instruction.opcode == 0xabb)
        instruction.kind = SASS_ULDC_INDEXED;
    else if (instruction.opcode == 0x919 || instruction.opcode == 0x9c3 || instruction.opcode == 0x805)
        decode_special(&instruction, word);
    /* A pair is counted also where one register is written: what is looked for are pairs. */
    if (op->writes_uniform && target != SASS_URZ)
        instruction.writes = UINT64_C(3) << (target & ~1u);
    if (instruction.kind == SASS_ALU)
        decode_operand(&instruction, word);
    else if (instruction.kind == SASS_LDC || instruction.kind == SASS_ULDC || instruction.kind == SASS_ULDC_INDEXED)
        decode_load(&instruction, word);
    return instruction;
}

/*
 * All arithmetic in denvdis (public; its description of sm_75) has a twin. Of what is newer, these do: a disassembler
 * reads the twin as the same instruction with cx.
 */
bool sass_has_twin(uint16_t opcode)
{
    switch (opcode & BASE_MASK) {
    case 0x035:
        return opcode == 0x635; /* HFMA2.MMA */
    case 0x040:
        return opcode == 0xa40; /* HMNMX2 */
    case 0x045:
        return opcode == 0xa45; /* I2FP */
    case 0x00f:                 /* VIMNMX3 */
    case 0x022:                 /* FSWZADD */
    case 0x036:                 /* VIADD */
    case 0x043:                 /* F2IP */
    case 0x046:                 /* VIADDMNMX */
    case 0x048:                 /* VIMNMX */
        return false;
    default:
        return true;
    }
}

/* Distance in bits 81:34 and, since sm_90, the low byte in bits 23:16; in words of 4 bytes. */
bool sass_branch(const struct sass_target *target, struct sass_word word, int64_t *distance)
{
    uint16_t opcode = word.lo & 0xfff;
    uint64_t value;

    if (opcode != 0x947 && opcode != 0x944 && opcode != 0x547)
        return false;
    value = (word.lo >> 34 | (word.hi & 0x3ffff) << 30) << 8 | (word.lo >> 16 & 0xff);
    if (!target->split_branch)
        *distance = (int64_t)((value >> 8) << 16) >> 14; /* sign of 48 bits, times 4 */
    else
        *distance = (int64_t)(value << 8) >> 6; /* of 56 bits */
    return true;
}
