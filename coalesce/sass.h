/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine code of NVIDIA GPUs: what the rewriter must know of it. What differs between architectures is in struct
 * sass_target. Only what is written for sm_90 ever ran; sm_80, sm_86 and sm_89 are rewritten on request.
 *
 *   sass_decode.c   one instruction: which uniform registers, what it reads from constant banks, special registers
 *   sass_encode.c   the instructions that the rewriter writes
 *   sass_analyse.c  a kernel: what it reads, which registers are free, why it cannot be rewritten
 *   sass_rewrite.c  the new code
 *   sass_image.c    the new cubin around it
 *
 * How a pack finds its parameters. They are in constant bank 0 from `parameter_base` on, N members one after the other
 * (coalesce.h). A prologue behind the code computes, from the block's index on z, a handle for the constant bank "cx":
 * base address of bank 0 plus where the member's parameters are, so that cx[handle][offset] is for the member what
 * c[0x0][offset] is for the original. The handle stays in a pair of uniform registers that the kernel does not use, and
 * each instruction that reads a parameter becomes the same instruction reading cx. If no pair is free, parameters are
 * read with an index instead ("indexed form").
 *
 * Encodings: "bit n" counts from the low end of the 128-bit word. They were read off ptxas 13.0 output and compared
 * with a disassembler; the forms that the prologue uses ran on an H200. Any thread.
 */
#ifndef COISSUE_COALESCE_SASS_H
#define COISSUE_COALESCE_SASS_H

#include "coalesce/cubin.h"

struct sass_word {
    uint64_t lo, hi;
};

enum {
    SASS_WORD = 16, /* bytes */
    SASS_URZ = 63,  /* uniform registers are UR0 to UR62 and zero */
    SASS_RZ = 255,  /* registers are R0 to R254 and zero */
    SASS_PT = 7,    /* always true */
    SASS_BANK_PARAMETERS = 0,
};

/* Special registers. */
enum { SASS_SR_CTAID_X = 37, SASS_SR_CTAID_Y = 38, SASS_SR_CTAID_Z = 39, SASS_SRZ = 255 };

struct sass_word_rule;

struct sass_target {
    unsigned sm;
    bool proven; /* rewritten kernels ran on it */
    /* Of bank 0, in bytes. */
    uint32_t parameter_base;            /* first parameter */
    uint32_t parameter_address;         /* u64: generic address of the first parameter; 0: there is none */
    uint32_t bank_address;              /* u64: generic address of bank 0 itself */
    uint32_t grid;                      /* gridDim.x, y, z */
    const struct sass_word_rule *rules; /* for the words of bank 0 that the driver fills (sass_analyse.c) */
    size_t rule_count;
    uint8_t handle_shift; /* the handle of cx: address >> this, */
    uint8_t size_shift;   /* and size / 16 from this bit of the high word on */
    bool split_branch;    /* the low byte of a distance is in bits 23:16 */
    bool alu;             /* parameters are read by arithmetic: only what is known to have a form for cx */
    bool clusters;        /* has special registers for them */
    bool z_record;        /* the image says whether a kernel reads the block's index on z */
};

const struct sass_target *sass_target(unsigned sm); /* NULL: not known */

/* ---- sass_decode.c ---- */

enum sass_kind {
    SASS_UNKNOWN,
    SASS_OTHER,
    SASS_ALU, /* the only kind besides the next three whose constant operand can be turned into cx */
    SASS_LDC,
    SASS_ULDC,
    SASS_ULDC_INDEXED,
    SASS_S2R, /* also CS2R.32 */
    SASS_S2UR,
    SASS_CS2R, /* 64 bits: a register and the next */
};

struct sass_instruction {
    enum sass_kind kind;
    uint16_t opcode; /* bits 11:0 */
    bool bit91;      /* belongs to the opcode */
    uint64_t writes; /* uniform registers, UR0 in bit 0; of a pair both are counted */
    bool constant;   /* reads c[bank][offset + index] */
    bool indexed;
    uint8_t bank;
    uint8_t bytes; /* that it reads */
    uint32_t offset;
    int special; /* special register that it reads, or -1 */
};

struct sass_instruction sass_decode(struct sass_word word);
const char *sass_name(uint16_t opcode, bool bit91); /* NULL: unknown */

/* BRA, CALL.REL, ...: true, and how far from the next instruction; others false. */
bool sass_branch(const struct sass_target *target, struct sass_word word, int64_t *distance);

/* Arithmetic of which it is known that it can read cx; for struct sass_target.alu. */
bool sass_has_twin(uint16_t opcode);

/* bits 0x40 to 0x5f of the low opcode byte: control flow, all that can depend on its own place */
bool sass_is_control(uint16_t opcode);

/* ---- sass_encode.c ---- */

/* Scheduling fields. Zero: none, so scoreboards count from 1. */
struct sass_control {
    uint8_t stall; /* cycles until the next instruction, up to 15 */
    bool stay;     /* must not be set with a stall above 11 (denvdis) */
    uint8_t write; /* scoreboard + 1 that is set while the result is on its way */
    uint8_t wait;  /* mask of scoreboards to wait for */
};

struct sass_word sass_with_control(struct sass_word word, struct sass_control control);
struct sass_word sass_with_guard(struct sass_word word, struct sass_word like);
uint8_t sass_wait_mask(struct sass_word word);
uint8_t sass_stall(struct sass_word word);

/* In all of these d, a, b, c are registers; `ur` in front of a name: result in a uniform register. */
struct sass_word sass_s2ur(unsigned d, unsigned special);
struct sass_word sass_s2r(unsigned d, unsigned special);
struct sass_word sass_uldc(unsigned d, uint32_t offset, bool wide);              /* c[0x0] */
struct sass_word sass_uldc_cx(unsigned d, unsigned handle, uint32_t offset);     /* 32 bits */
struct sass_word sass_uldc_indexed(unsigned d, unsigned index, uint32_t offset); /* c[0x0][index + offset] */
struct sass_word sass_umov(unsigned d, unsigned a);
struct sass_word sass_umov_imm(unsigned d, uint32_t value);
struct sass_word sass_mov(unsigned d, unsigned uniform);
struct sass_word sass_mov_imm(unsigned d, uint32_t value);
struct sass_word sass_uimad_wide_imm(unsigned d, unsigned a, uint32_t b, unsigned c); /* d:d+1 = a * b + c:c+1 */
struct sass_word sass_uimad_wide(unsigned d, unsigned a, unsigned b, unsigned c);
struct sass_word sass_uimad_imm(unsigned d, unsigned a, uint32_t b); /* 32 bits */
struct sass_word sass_uimad(unsigned d, unsigned a, unsigned b, unsigned c);
struct sass_word sass_uiadd(unsigned d, unsigned a, unsigned b);
struct sass_word sass_uiadd_imm(unsigned d, uint32_t b, unsigned a);                   /* carry into UP0 */
struct sass_word sass_uiadd_carry(unsigned d, unsigned b);                             /* d = b + UP0 */
struct sass_word sass_shift_pair(unsigned d, unsigned low, unsigned high, unsigned n); /* low word of high:low >> n */
struct sass_word sass_shift(unsigned d, unsigned a, unsigned n);                       /* a >> n */
struct sass_word sass_uor_imm(unsigned d, unsigned a, uint32_t b);
struct sass_word sass_iadd(unsigned d, unsigned a, unsigned b);     /* registers */
struct sass_word sass_wide_from_uniform(unsigned d, unsigned pair); /* d:d+1 = pair */
struct sass_word sass_compare_ge(unsigned a, unsigned uniform);     /* P0 = a >= uniform */
struct sass_word sass_exit_if_p0(void);
struct sass_word sass_bra(const struct sass_target *target, uint64_t from, uint64_t to);
struct sass_word sass_nop(void);

/* Reads of constants, turned to another place. */
struct sass_word sass_to_cx(struct sass_word word, enum sass_kind kind, unsigned handle, uint32_t offset);
struct sass_word sass_to_indexed(struct sass_word word, enum sass_kind kind, unsigned index, uint32_t offset);

/* ---- sass_analyse.c ---- */

/* Facts of a kernel, the functions that it calls included. */
struct sass_facts {
    const struct sass_target *target;
    const struct cubin *cubin;
    const char *name;
    uint32_t section, symbol; /* of the kernel */
    uint32_t info, constant0; /* sections */
    uint32_t parameter_bytes;
    uint32_t registers; /* as the image says */
    uint64_t uniform_written;
    uint32_t parameter_reads;   /* instructions */
    bool reads_ldc;             /* a parameter through LDC */
    bool reads_parameter_index; /* through ULDC with an index */
    bool reads_address, reads_bank_address, reads_ctaid_z, reads_grid;
    bool reads_alu;   /* parameters in operands of arithmetic */
    bool reads_count; /* something that counts blocks or clusters of the grid along x or y */
    bool bank3, bank4, bank4_indexed;
    uint64_t bank4_used[128]; /* one bit for each 8 bytes that are read without an index */
    bool clusters, setmaxreg;
    bool old_abi; /* the register count is also in the section header */
};

/*
 * Looks at the kernel's records and its own code. -ENOTSUP or -EINVAL and `*refusal`. Functions that it calls in other
 * sections are looked at with sass_analyse_code, which adds to the facts.
 */
int sass_analyse(const struct cubin *cubin, const char *name, struct sass_facts *facts, enum coalesce_refusal *refusal);

int sass_analyse_code(struct sass_facts *facts, uint32_t section, enum coalesce_refusal *refusal);

/* What to do with one read of bank 0. */
enum sass_read {
    SASS_READ_KEEP, /* not a parameter, the same for all members */
    SASS_READ_PARAMETER,
    SASS_READ_GRID,    /* gridDim */
    SASS_READ_ADDRESS, /* of the parameters */
    SASS_READ_BANK_ADDRESS,
};

enum sass_read sass_classify(const struct sass_facts *facts, const struct sass_instruction *instruction);

/* A function of the driver that no kernel comes back from. */
bool sass_never_returns(const char *function);

/* ---- sass_image.c: what a relocation's symbol is ---- */

bool sass_is_texture(const struct cubin_symbol *symbol);
bool sass_is_module_variable(const struct cubin *cubin, const struct cubin_symbol *symbol);
/* Of those, one that is never written, so that a copy of it is as good. */
bool sass_is_constant_table(const struct cubin *cubin, const struct cubin_symbol *symbol);

struct sass_word sass_word_at(const unsigned char *code, uint64_t offset);

/* ---- sass_rewrite.c ---- */

struct sass_registers {
    bool indexed;                  /* the indexed form */
    uint8_t handle;                /* pair */
    uint8_t address;               /* pair, if the kernel reads the address of its parameters */
    uint8_t bank_address;          /* pair, if the kernel reads that of bank 0 */
    uint8_t z;                     /* block index within the member, for COALESCE_FOLD */
    uint8_t place;                 /* offset of the member's parameters in the area, less `base` */
    uint8_t place_register;        /* the same in a register that is added to those of the kernel */
    uint8_t scratch, scratch_pair; /* in the prologue */
};

/* -ENOTSUP and `*refusal` NO_REGISTER. */
int sass_choose_registers(const struct sass_facts *facts, unsigned form, struct sass_registers *registers,
                          enum coalesce_refusal *refusal);

struct sass_code {
    unsigned char *bytes; /* for free() */
    size_t size;
    uint32_t changed; /* instructions changed or added */
    bool *changed_at; /* by word of the original; for free() */
};

/* The prologue alone, for tests: returns the number of words; `words` has room for SASS_PROLOGUE_MAX. */
enum { SASS_PROLOGUE_MAX = 32 };
unsigned sass_prologue(const struct sass_facts *facts, const struct sass_registers *registers,
                       const struct coalesce_layout *layout, struct sass_word *words);

int sass_rewrite_code(const struct sass_facts *facts, uint32_t section, const struct sass_registers *registers,
                      const struct coalesce_layout *layout, struct sass_code *code, enum coalesce_refusal *refusal);
void sass_code_finish(struct sass_code *code);

/* ---- sass_image.c ---- */

enum cubin_build {
    CUBIN_SUBSET, /* the one kernel and what it needs */
    CUBIN_WHOLE,  /* the whole image with the one kernel changed */
};

/* sass_rewrite with a choice; sass_rewrite takes CUBIN_SUBSET, and CUBIN_WHOLE where that cannot be built. */
int sass_rewrite_with(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                      enum cubin_build build, struct coalesce_output *output, enum coalesce_refusal *refusal);

/*
 * The same, but as if the kernel also wrote these uniform registers (bit 0: UR0). For tests: SASS_AVOID_PAIRS leaves no
 * pair, so that the indexed form comes out.
 */
#define SASS_AVOID_PAIRS UINT64_C(0x1555555555555555)
int sass_rewrite_avoiding(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                          enum cubin_build build, uint64_t avoid, struct coalesce_output *output,
                          enum coalesce_refusal *refusal);

#endif
