/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the PTX interpreter share: the decoded form of a module.
 *
 *   lex.c     text -> words
 *   parse.c   module level: variables, kernels, functions, initialisers
 *   body.c    one function body: scopes, labels, operands, constants
 *   decode.c  one instruction -> one or more `struct insn`; decoders in decode_math.c, decode_memory.c, decode_flow.c
 *   alloc.c   virtual registers -> rows of the register file
 *   lane.c    what most instructions compute, one lane at a time
 *   round.c   the few that need another rounding mode of the host
 *   exec.c    the warp interpreter; compiled twice, for plain x86-64 and for AVX2 + FMA
 *   run.c     instances, launches, the scheduling of blocks and warps
 *
 * Register file of a warp: each register is a row with one column per lane. Rows of 32 bits (also for 8 and 16 bit
 * registers, whose upper bits are junk: every reader looks at the width that its type names), rows of 64 bits, and one
 * word of lane bits per predicate. The three kinds live in separate pools, so that a column never overlaps a column of
 * another lane, whatever the lanes of a divergent warp keep in a row. Constants are rows too.
 */
#ifndef COISSUE_TESTS_SIMCUDA_PTX_INTERNAL_H
#define COISSUE_TESTS_SIMCUDA_PTX_INTERNAL_H

#include "tests/simcuda/ptx/ptx.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of this reader. The text of a module is not trusted. */
enum {
    TEXT_MAX = 1 << 28,
    REGISTERS_PER_BODY_MAX = 1 << 20,
    PREDICATES_PER_BODY_MAX = 1 << 14,
    SCOPE_DEPTH_MAX = 64,
    SCOPES_MAX = 1 << 20,
    INSN_OPERANDS = 6,
    INSTRUCTIONS_MAX = 1 << 24,
    LOCAL_BYTES_MAX = 512 << 10, /* per thread, the device's limit */
    SHARED_BYTES_MAX = 1 << 20,  /* more than any device has; the embedder checks the real limit */
    CALL_DEPTH_MAX = 4096,
    BARRIERS = 16,
};

#define GLOBAL_BYTES_MAX (UINT64_C(1) << 32)

enum ptype {
    T_NONE,
    T_B8,
    T_B16,
    T_B32,
    T_B64,
    T_U8,
    T_U16,
    T_U32,
    T_U64,
    T_S8,
    T_S16,
    T_S32,
    T_S64,
    T_F16,
    T_BF16,
    T_F16X2,
    T_BF16X2,
    T_TF32,
    T_F32,
    T_F64,
    T_PRED,
};

enum space { SP_GENERIC, SP_GLOBAL, SP_CONST, SP_SHARED, SP_LOCAL, SP_PARAM_KERNEL, SP_PARAM_FRAME };

enum rounding { RND_NONE, RND_N, RND_Z, RND_M, RND_P, RND_A, RND_NI, RND_ZI, RND_MI, RND_PI };

enum compare {
    CMP_EQ,
    CMP_NE,
    CMP_LT,
    CMP_LE,
    CMP_GT,
    CMP_GE,
    CMP_EQU,
    CMP_NEU,
    CMP_LTU,
    CMP_LEU,
    CMP_GTU,
    CMP_GEU,
    CMP_NUM,
    CMP_NAN,
};

enum combine { COMBINE_NONE, COMBINE_AND, COMBINE_OR, COMBINE_XOR };

/* Operand: pool in the low two bits, byte offset of the row in the others (rows are multiples of 128 bytes). */
enum pool { POOL_R32 = 0, POOL_R64 = 1, POOL_C32 = 2, POOL_C64 = 3 };
enum { ROW32 = 4 * PTX_WARP_LANES, ROW64 = 8 * PTX_WARP_LANES };

enum flags {
    F_FTZ = 1 << 0,
    F_SAT = 1 << 1,
    F_NAN = 1 << 2, /* min/max: NaN wins */
    F_RELU = 1 << 3,
    F_CC = 1 << 4,  /* carry: writes the condition code */
    F_CIN = 1 << 5, /* carry: reads it */
    F_HI = 1 << 6,
    F_SIGNED = 1 << 7,
    F_POLL = 1 << 8, /* an access that waiting loops use: volatile, relaxed, acquire */
    F_ACQUIRE = 1 << 9,
    F_RELEASE = 1 << 10,
    F_ABS = 1 << 11, /* xorsign.abs */
    F_SATFINITE = 1 << 12,
    F_WRAP = 1 << 13,
    F_APPROX = 1 << 14, /* div.approx */
};

/* Fast instructions have their own loop over the lanes; OP_LANE calls insn.fn for each lane. */
enum op {
    OP_LANE,
    OP_MOV32,
    OP_MOV64,
    OP_SREG,       /* imm: enum sreg */
    OP_LOCAL_ADDR, /* d = frame pointer + imm */
    OP_PACK,       /* mov {..} forms; type = element type */
    OP_UNPACK,
    OP_ADD32,
    OP_SUB32,
    OP_MUL32,
    OP_MAD32,
    OP_ADD64,
    OP_SUB64,
    OP_MUL64,
    OP_MAD64,
    OP_MUL_WIDE_U32,
    OP_MUL_WIDE_S32,
    OP_MAD_WIDE_U32,
    OP_MAD_WIDE_S32,
    OP_AND32,
    OP_OR32,
    OP_XOR32,
    OP_NOT32,
    OP_AND64,
    OP_OR64,
    OP_XOR64,
    OP_NOT64,
    OP_SHL32,
    OP_SHR_U32,
    OP_SHR_S32,
    OP_SHL64,
    OP_SHR_U64,
    OP_SHR_S64,
    OP_MIN_U32,
    OP_MAX_U32,
    OP_MIN_S32,
    OP_MAX_S32,
    OP_ADD_F32,
    OP_SUB_F32,
    OP_MUL_F32,
    OP_FMA_F32,
    OP_MIN_F32,
    OP_MAX_F32,
    OP_NEG_F32,
    OP_ABS_F32,
    OP_ADD_F64,
    OP_SUB_F64,
    OP_MUL_F64,
    OP_FMA_F64,
    OP_ZEXT64,  /* u64 <- u32 */
    OP_SEXT64,  /* s64 <- s32 */
    OP_TRUNC32, /* 32 <- 64 */
    OP_S32_TO_F32,
    OP_CARRY, /* add sub mad with carry; sub-operation in `sub` */
    OP_SETP,  /* cmp, combine; pd, pd2; ps combined */
    OP_SETP_LANE,
    OP_SELP32,
    OP_SELP64,
    OP_MOV_PRED, /* pd = ps */
    OP_AND_PRED,
    OP_OR_PRED,
    OP_XOR_PRED,
    OP_LD,
    OP_ST,
    OP_LD_PARAM, /* kernel parameter: imm = offset */
    OP_LD_FRAME, /* parameter in the frame: imm = offset */
    OP_ST_FRAME,
    OP_ATOM,
    OP_FENCE,
    OP_CP_ASYNC,
    OP_CVTA,
    OP_ISSPACEP,
    OP_MBARRIER, /* sub */
    OP_BRA,
    OP_BRX,
    OP_CALL,
    OP_CALL_POINTER,
    OP_CALL_BUILTIN,
    OP_RET,
    OP_EXIT,
    OP_TRAP,
    OP_BAR,       /* sub */
    OP_WARP_SYNC, /* sub: shuffles, votes, ... */
    OP_ACTIVEMASK,
    OP_CLUSTER_ARRIVE,
    OP_CLUSTER_WAIT,
    OP_NANOSLEEP,
    OP_NOP,
};

enum { CARRY_ADD, CARRY_SUB, CARRY_MAD };
enum { BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR };
enum {
    MBAR_INIT,
    MBAR_INVAL,
    MBAR_ARRIVE,
    MBAR_ARRIVE_DROP,
    MBAR_ARRIVE_EXPECT,
    MBAR_EXPECT,
    MBAR_COMPLETE,
    MBAR_TEST,
    MBAR_TEST_PARITY,
    MBAR_PENDING,
    MBAR_CP_ASYNC,
    MBAR_CP_ASYNC_NOINC,
};
enum { BUILTIN_PRINTF, BUILTIN_ASSERT, BUILTIN_MALLOC, BUILTIN_FREE };

enum warp_sync {
    WS_BARRIER,
    WS_SHFL_UP,
    WS_SHFL_DOWN,
    WS_SHFL_BFLY,
    WS_SHFL_IDX,
    WS_VOTE_ALL,
    WS_VOTE_ANY,
    WS_VOTE_UNI,
    WS_VOTE_BALLOT,
    WS_MATCH_ANY,
    WS_MATCH_ALL,
    WS_REDUX,
    WS_ELECT,
};

enum atomic_op {
    AT_ADD,
    AT_MIN,
    AT_MAX,
    AT_INC,
    AT_DEC,
    AT_AND,
    AT_OR,
    AT_XOR,
    AT_EXCH,
    AT_CAS,
};

enum sreg {
    SR_TID_X,
    SR_TID_Y,
    SR_TID_Z,
    SR_NTID_X,
    SR_NTID_Y,
    SR_NTID_Z,
    SR_CTAID_X,
    SR_CTAID_Y,
    SR_CTAID_Z,
    SR_NCTAID_X,
    SR_NCTAID_Y,
    SR_NCTAID_Z,
    SR_LANEID,
    SR_WARPID,
    SR_NWARPID,
    SR_SMID,
    SR_NSMID,
    SR_GRIDID,
    SR_CLOCK,
    SR_CLOCK_HI,
    SR_CLOCK64,
    SR_GLOBALTIMER,
    SR_GLOBALTIMER_LO,
    SR_GLOBALTIMER_HI,
    SR_LANEMASK_EQ,
    SR_LANEMASK_LT,
    SR_LANEMASK_LE,
    SR_LANEMASK_GT,
    SR_LANEMASK_GE,
    SR_DYNAMIC_SMEM_SIZE,
    SR_TOTAL_SMEM_SIZE,
    SR_DYNAMIC_SMEM_START, /* not in PTX: where an extern shared array begins */
    SR_CLUSTERID_X,
    SR_CLUSTERID_Y,
    SR_CLUSTERID_Z,
    SR_NCLUSTERID_X,
    SR_NCLUSTERID_Y,
    SR_NCLUSTERID_Z,
    SR_CLUSTER_CTAID_X,
    SR_CLUSTER_CTAID_Y,
    SR_CLUSTER_CTAID_Z,
    SR_CLUSTER_NCTAID_X,
    SR_CLUSTER_NCTAID_Y,
    SR_CLUSTER_NCTAID_Z,
    SR_CLUSTER_CTARANK,
    SR_CLUSTER_NCTARANK,
    SR_ENVREG1, /* with ENVREG2: high and low half of the address of the grid's workspace, see run.c */
    SR_ENVREG2,
    SR_IS_EXPLICIT_CLUSTER, /* a predicate */
    SR_ZERO,                /* %pm, %envreg, %reserved_smem_*: read as zero */
};

struct insn;
typedef uint64_t lane_fn(const struct insn *insn, uint64_t a, uint64_t b, uint64_t c, uint64_t d);

struct insn {
    uint16_t op;
    uint8_t dests, operands; /* o[0 .. dests - 1] are written, o[dests .. operands - 1] are read */
    uint16_t guard;          /* predicate index << 1 | negated; 0 = always */
    uint16_t ps, ps2;        /* predicate sources, same form */
    uint16_t pd, pd2;        /* predicate results, index; 0 = none */
    uint16_t flags;
    uint8_t type, type2; /* enum ptype: main type; source type of cvt, set */
    uint8_t rounding, compare, combine;
    uint8_t sub;   /* sub-operation of some ops; lookup table of lop3 */
    uint8_t space; /* memory */
    uint8_t count; /* memory: elements; pack: elements */
    uint8_t shift; /* 64 - bits of the main type */
    uint8_t bytes; /* memory: of an element */
    uint32_t line;
    uint32_t o[INSN_OPERANDS];
    int64_t imm; /* address offset, target, ...; see enum op */
    lane_fn *fn;
};

/* ---- module ---- */

struct text_span {
    const char *at;
    size_t length;
};

/* A constant row. `global` >= 0: the address of that global plus `value`. */
struct constant {
    uint64_t value;
    int32_t global;
    bool wide;
    uint32_t offset; /* of its row in the function's constant table */
};

struct frame_slot {
    uint32_t offset, size, align;
};

struct call_site {
    uint32_t first_arg, args; /* in function.slots: caller's side */
    int32_t result;           /* in function.slots, or -1 */
    uint32_t callee;          /* function index; unused by calls through pointers */
};

struct jump_table {
    uint32_t first, count; /* in function.targets */
};

/* A body: of a kernel or of a device function. */
struct function {
    char *name;
    bool is_entry, defined, has_indirect_call, uses_dynamic_shared, calls;
    int builtin; /* -1, or BUILTIN_* */
    int32_t alias;
    /* signature; for functions offsets are in the frame */
    struct ptx_param *params;
    uint32_t param_count, param_bytes;
    struct ptx_param *results;
    uint32_t result_count;
    struct text_span *param_names, *result_names; /* in the text; only while the module is read */
    /* code, pcs are indices into module.code */
    uint32_t first_pc, pc_count;
    uint32_t frame_bytes;     /* parameters, results, local variables */
    uint32_t local_bytes;     /* local variables only */
    uint32_t n32, n64, npred; /* rows */
    uint32_t pressure;        /* 32-bit registers live at once */
    struct constant *constants;
    uint32_t constant_count, constant_bytes;
    struct frame_slot *slots;
    uint32_t slot_count;
    struct call_site *calls_at;
    uint32_t call_count;
    struct jump_table *tables;
    uint32_t table_count;
    uint32_t *targets;
    uint32_t target_count;
    uint32_t shared_bytes; /* own static shared, after the module's common part */
    uint32_t tree_stack;   /* bytes of frames of the deepest call chain, UINT32_MAX if recursive */
    /* where the body stands in the text; only while the module is read */
    size_t body_at;
    uint32_t body_line;
    uint32_t line;
};

struct initial_address {
    uint64_t at;    /* offset in the variable */
    int32_t global; /* -1: `value` is all */
    uint64_t value;
};

struct global {
    struct ptx_global info;
    char *name;
    uint8_t *init; /* init_size bytes, without addresses */
    struct initial_address *addresses;
    uint32_t address_count;
};

struct ptx_module {
    struct ptx_module_info info;
    struct function *functions;
    uint32_t function_count;
    struct ptx_kernel *kernels; /* with .params owned by the function */
    uint32_t *kernel_function;
    uint32_t kernel_count;
    struct global *globals;
    uint32_t global_count;
    struct insn *code;
    uint32_t code_count;
    uint32_t shared_common; /* bytes of shared variables that device functions use; every kernel has them first */
    uint32_t dynamic_align; /* of extern shared arrays, at least 16 */
};

/* Values of all constants of one function for one instance. */
struct constant_table {
    char *rows;
};

struct ptx_instance {
    const struct ptx_module *module;
    uint64_t *addresses;
    struct constant_table **tables; /* by function; made at first use, published with release */
    uint32_t fence;                 /* see exec.c; only for the thread sanitizer */
};

/* ---- types ---- */

unsigned type_bits(enum ptype type);
bool type_is_float(enum ptype type);
bool type_is_signed(enum ptype type);
const char *type_name(enum ptype type);

static inline unsigned type_bytes(enum ptype type)
{
    return type_bits(type) / 8;
}

/* ---- alloc.c ---- */

struct alloc_input {
    struct insn *code; /* operands hold register number << 2 | pool */
    uint32_t count;
    uint32_t r32, r64, preds; /* numbers in use; predicate 0 is "true" */
    const struct function *function;
};

/* Rewrites the operands to row offsets and sets function's n32, n64, npred and pressure. 0 or -ENOMEM. */
int alloc_registers(struct function *function, const struct alloc_input *input);

/* ---- lane.c ---- */

/* Floating-point formats by mantissa bits (without the hidden one) and exponent bits. */
struct float_format {
    uint8_t mantissa, exponent;
};

uint64_t float_pack(struct float_format format, bool negative, uint64_t mantissa, int exponent, bool sticky,
                    enum rounding rounding);
uint64_t float_from_double(struct float_format format, double value, enum rounding rounding);
double half_to_double(uint16_t bits);
double bf16_to_double(uint16_t bits);
uint16_t half_from_double(double value);
uint16_t bf16_from_double(double value);
double add_to_odd(double a, double b);

lane_fn lane_add, lane_sub, lane_mul_lo, lane_mul_hi, lane_mul_wide, lane_mad_lo, lane_mad_hi, lane_mad_wide, lane_div,
    lane_rem, lane_abs, lane_neg, lane_min, lane_max, lane_sad, lane_popc, lane_clz, lane_bfind, lane_brev, lane_bfe,
    lane_bfi, lane_fns, lane_prmt, lane_shl, lane_shr, lane_shf, lane_lop3, lane_and, lane_or, lane_xor, lane_not,
    lane_cnot, lane_mul24, lane_mad24, lane_dp4a, lane_dp2a, lane_slct, lane_cvt, lane_cvt_pack, lane_bmsk, lane_szext,
    lane_mov;
lane_fn lane_float_add, lane_float_sub, lane_float_mul, lane_float_fma, lane_float_div, lane_float_sqrt, lane_float_rcp,
    lane_float_rsqrt, lane_float_min, lane_float_max, lane_float_abs, lane_float_neg, lane_float_copysign,
    lane_float_ex2, lane_float_lg2, lane_float_sin, lane_float_cos, lane_float_tanh, lane_float_rcp64h,
    lane_float_rsqrt64h;
lane_fn lane_compare; /* 0 or 1: insn.compare of a and b, by insn.type */
lane_fn lane_set;     /* set: insn.type is the result, type2 of the operands */
lane_fn lane_testp;

/* One atomic step on the value `old`: what is to be stored. `b` and `c` as in atom. */
uint64_t atomic_new_value(const struct insn *insn, uint64_t old, uint64_t b, uint64_t c);

/* ---- round.c: with the host's rounding mode set for one operation ---- */

enum round_op { ROUND_ADD, ROUND_SUB, ROUND_MUL, ROUND_DIV, ROUND_FMA, ROUND_SQRT };
float round_float(enum round_op op, enum rounding rounding, float a, float b, float c);
double round_double(enum round_op op, enum rounding rounding, double a, double b, double c);

#endif
