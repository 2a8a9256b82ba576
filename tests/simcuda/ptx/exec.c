/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop: one warp for a number of instructions. This file is compiled twice, as ptx_exec_plain and, with AVX2
 * and FMA, as ptx_exec_avx2.
 *
 * A group is the lanes that stand at one pc in one frame. The group with the deepest frame and then the lowest pc runs
 * until its pc reaches the next other group ("meet"), so that lanes that took different sides of a branch meet again
 * behind it. A group that used a whole turn while others could run is skipped once, so that lanes which wait for each
 * other (locks inside a warp) get on.
 *
 * Plain code may read any lane's row while only the active lanes are written, so loops over all 32 lanes have no test.
 */
#include "tests/simcuda/ptx/exec.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#ifndef PTX_EXEC_NAME
#define PTX_EXEC_NAME ptx_exec_plain
#endif

enum { ALL_LANES = -1 };
static const uint32_t F32_NAN = 0x7fffffff;

struct group {
    uint32_t mask, pc, meet;
    uint32_t lead; /* a lane of it */
};

/* ---- choosing a group ---- */

static inline bool same_frame(const struct frame *a, const struct frame *b)
{
    return a->function == b->function && a->b32 == b->b32 && a->b64 == b->b64 && a->bp == b->bp && a->fp == b->fp &&
           a->depth == b->depth;
}

static bool choose_group(struct warp *warp, bool calls, struct group *group)
{
    uint32_t candidates = warp->run & ~warp->skip;
    if (candidates == 0) {
        warp->skip = 0;
        candidates = warp->run;
        if (candidates == 0)
            return false;
    }
    uint32_t lead = (uint32_t)__builtin_ctz(candidates);
    for (uint32_t left = candidates & (candidates - 1); left; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        if (calls && warp->frame[lane].depth != warp->frame[lead].depth) {
            if (warp->frame[lane].depth > warp->frame[lead].depth)
                lead = lane;
        } else if (warp->pc[lane] < warp->pc[lead]) {
            lead = lane;
        }
    }
    *group = (struct group){.pc = warp->pc[lead], .meet = UINT32_MAX, .lead = lead};
    for (uint32_t left = warp->run; left; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        if (calls && !same_frame(&warp->frame[lane], &warp->frame[lead]))
            continue;
        if (warp->pc[lane] == group->pc)
            group->mask |= UINT32_C(1) << lane;
        else if (warp->pc[lane] > group->pc && warp->pc[lane] < group->meet)
            group->meet = warp->pc[lane];
    }
    return true;
}

static void set_pcs(struct warp *warp, uint32_t lanes, uint32_t pc)
{
    for (; lanes; lanes &= lanes - 1)
        warp->pc[__builtin_ctz(lanes)] = pc;
}

/* ---- memory ---- */

static inline bool in_range(const struct ptx_range *range, uint64_t address, uint64_t bytes)
{
    return address >= range->lo && address < range->hi && bytes <= range->hi - address;
}

static char *fail_access(struct run *run, struct warp *warp, unsigned lane, const struct insn *insn, uint64_t address,
                         uint32_t bytes, bool write)
{
    enum ptx_fault_kind kind = address % bytes ? PTX_FAULT_MISALIGNED : PTX_FAULT_ILLEGAL_ADDRESS;
    run_fault(run, warp, lane, kind, (uint32_t)(insn - run->code), address, bytes, write);
    return NULL;
}

/* Host pointer of an access by one lane, or NULL after a fault. */
static inline char *resolve(struct run *run, struct warp *warp, unsigned lane, const struct insn *insn,
                            uint64_t address, uint32_t bytes, bool write)
{
    uint64_t offset = address;
    unsigned space = insn->space;
    if (__builtin_expect((address & (bytes - 1)) != 0, 0))
        return fail_access(run, warp, lane, insn, address, bytes, write);
    if (space == SP_GENERIC) {
        if (address - PTX_WINDOW_SHARED < PTX_WINDOW_BYTES) {
            space = SP_SHARED;
            offset = address - PTX_WINDOW_SHARED;
        } else if (address - PTX_WINDOW_LOCAL < PTX_WINDOW_BYTES) {
            space = SP_LOCAL;
            offset = address - PTX_WINDOW_LOCAL;
        } else if (address - PTX_WINDOW_PARAM < PTX_WINDOW_BYTES) {
            space = SP_PARAM_KERNEL;
            offset = address - PTX_WINDOW_PARAM;
        } else {
            space = SP_GLOBAL;
        }
    }
    switch (space) {
    case SP_SHARED:
        if (offset < run->shared_bytes && bytes <= run->shared_bytes - offset)
            return warp->block->shared + offset;
        break;
    case SP_LOCAL:
        if (offset < run->local_stride && bytes <= run->local_stride - offset)
            return thread_local_memory(run, warp, lane) + offset;
        break;
    case SP_PARAM_KERNEL:
        if (!write && offset < run->param_bytes && bytes <= run->param_bytes - offset)
            return run->params + offset;
        break;
    default:
        if (__builtin_expect(in_range(&run->ranges[write][0], address, bytes), 1) ||
            run_access(run, address, bytes, write))
            return (char *)(uintptr_t)address;
    }
    return fail_access(run, warp, lane, insn, address, bytes, write);
}

/* An acquiring load pairs with a releasing store or an atomic of another kernel, or with a release of the host. */
#define LOAD(type, order) __atomic_load_n((const type *)(const void *)at, order)
#define STORE(type, order) __atomic_store_n((type *)(void *)at, (type)value, order)

static inline uint64_t load(const char *at, unsigned bytes)
{
    switch (bytes) {
    case 1:
        return LOAD(uint8_t, __ATOMIC_RELAXED);
    case 2:
        return LOAD(uint16_t, __ATOMIC_RELAXED);
    case 4:
        return LOAD(uint32_t, __ATOMIC_RELAXED);
    default:
        return LOAD(uint64_t, __ATOMIC_RELAXED);
    }
}

static uint64_t load_acquire(const char *at, unsigned bytes)
{
    switch (bytes) {
    case 1:
        return LOAD(uint8_t, __ATOMIC_ACQUIRE);
    case 2:
        return LOAD(uint16_t, __ATOMIC_ACQUIRE);
    case 4:
        return LOAD(uint32_t, __ATOMIC_ACQUIRE);
    default:
        return LOAD(uint64_t, __ATOMIC_ACQUIRE);
    }
}

static inline void store(char *at, unsigned bytes, uint64_t value)
{
    switch (bytes) {
    case 1:
        STORE(uint8_t, __ATOMIC_RELAXED);
        break;
    case 2:
        STORE(uint16_t, __ATOMIC_RELAXED);
        break;
    case 4:
        STORE(uint32_t, __ATOMIC_RELAXED);
        break;
    default:
        STORE(uint64_t, __ATOMIC_RELAXED);
    }
}

static void store_release(char *at, unsigned bytes, uint64_t value)
{
    switch (bytes) {
    case 1:
        STORE(uint8_t, __ATOMIC_RELEASE);
        break;
    case 2:
        STORE(uint16_t, __ATOMIC_RELEASE);
        break;
    case 4:
        STORE(uint32_t, __ATOMIC_RELEASE);
        break;
    default:
        STORE(uint64_t, __ATOMIC_RELEASE);
    }
}

/* fence and membar: between the accesses of this kernel before and after it, as seen by other kernels and the host. */
static void full_fence(struct run *run)
{
#if defined(__SANITIZE_THREAD__)
    __atomic_fetch_add(&run->instance->fence, 1, __ATOMIC_SEQ_CST); /* the sanitizer knows no fences */
#else
    (void)run;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#define EXCHANGE_LOOP(type)                                                                                            \
    do {                                                                                                               \
        type *word_ = (type *)(void *)at;                                                                              \
        type old_ = __atomic_load_n(word_, __ATOMIC_RELAXED), new_;                                                    \
        do {                                                                                                           \
            new_ = (type)atomic_new_value(insn, old_, b, c);                                                           \
        } while (!__atomic_compare_exchange_n(word_, &old_, new_, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));          \
        return old_;                                                                                                   \
    } while (0)

#define ATOMIC_DIRECT(type)                                                                                            \
    do {                                                                                                               \
        type *word_ = (type *)(void *)at;                                                                              \
        switch (insn->sub) {                                                                                           \
        case AT_ADD:                                                                                                   \
            return __atomic_fetch_add(word_, (type)b, __ATOMIC_SEQ_CST);                                               \
        case AT_AND:                                                                                                   \
            return __atomic_fetch_and(word_, (type)b, __ATOMIC_SEQ_CST);                                               \
        case AT_OR:                                                                                                    \
            return __atomic_fetch_or(word_, (type)b, __ATOMIC_SEQ_CST);                                                \
        case AT_XOR:                                                                                                   \
            return __atomic_fetch_xor(word_, (type)b, __ATOMIC_SEQ_CST);                                               \
        case AT_EXCH:                                                                                                  \
            return __atomic_exchange_n(word_, (type)b, __ATOMIC_SEQ_CST);                                              \
        default:                                                                                                       \
            break;                                                                                                     \
        }                                                                                                              \
    } while (0)

static uint64_t atomic(const struct insn *insn, char *at, uint64_t b, uint64_t c)
{
    bool real = insn->type >= T_F16;
    switch (insn->bytes) {
    case 2:
        EXCHANGE_LOOP(uint16_t);
    case 4:
        if (!real)
            ATOMIC_DIRECT(uint32_t);
        EXCHANGE_LOOP(uint32_t);
    default:
        if (!real)
            ATOMIC_DIRECT(uint64_t);
        EXCHANGE_LOOP(uint64_t);
    }
}

/* A loop that reads the same value again and again waits for somebody: end its turn. */
static void poll(struct warp *warp, uint32_t pc, uint64_t value, bool *turn)
{
    if (warp->poll_pc == pc && warp->poll_value == value) {
        if (++warp->poll_count >= POLLS_BEFORE_TURN) {
            warp->poll_count = 0;
            *turn = true;
        }
    } else {
        warp->poll_pc = pc;
        warp->poll_value = value;
        warp->poll_count = 0;
    }
}

/* ---- values ---- */

static inline float flush(float v)
{
    return fabsf(v) < FLT_MIN ? copysignf(0.0f, v) : v;
}

static inline uint32_t bits_of(float v)
{
    uint32_t word;
    memcpy(&word, &v, sizeof(word));
    return v != v ? F32_NAN : word;
}

static inline float smaller(float a, float b)
{
    return a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b;
}

static inline float larger(float a, float b)
{
    return a != a ? b : b != b ? a : a > b || (a == b && signbit(b)) ? a : b;
}

#define ROW_OF(type, operand) ((type *)(void *)(base[(operand)&3] + ((operand) & ~3u)))

/* Rows are the same or apart, never shifted against each other. */
#if defined(__clang__)
#define NO_OVERLAP _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_OVERLAP _Pragma("GCC ivdep")
#endif

/* body uses l, the lane */
#define LANES(body)                                                                                                    \
    do {                                                                                                               \
        if (active == (uint32_t)ALL_LANES) {                                                                           \
            NO_OVERLAP for (unsigned l = 0; l < PTX_WARP_LANES; l++)                                                   \
            {                                                                                                          \
                body                                                                                                   \
            }                                                                                                          \
        } else {                                                                                                       \
            for (uint32_t left_ = active; left_; left_ &= left_ - 1) {                                                 \
                unsigned l = (unsigned)__builtin_ctz(left_);                                                           \
                body                                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

#define UNARY(op, from, to, expression)                                                                                \
    case op: {                                                                                                         \
        to *d = ROW_OF(to, insn->o[0]);                                                                                \
        const from *a = ROW_OF(from, insn->o[1]);                                                                      \
        LANES(d[l] = (expression););                                                                                   \
        break;                                                                                                         \
    }

#define BINARY2(op, from, from2, to, expression)                                                                       \
    case op: {                                                                                                         \
        to *d = ROW_OF(to, insn->o[0]);                                                                                \
        const from *a = ROW_OF(from, insn->o[1]);                                                                      \
        const from2 *b = ROW_OF(from2, insn->o[2]);                                                                    \
        LANES(d[l] = (expression););                                                                                   \
        break;                                                                                                         \
    }

#define BINARY(op, from, to, expression) BINARY2(op, from, from, to, expression)

#define TERNARY(op, from, from3, to, expression)                                                                       \
    case op: {                                                                                                         \
        to *d = ROW_OF(to, insn->o[0]);                                                                                \
        const from *a = ROW_OF(from, insn->o[1]), *b = ROW_OF(from, insn->o[2]);                                       \
        const from3 *c = ROW_OF(from3, insn->o[3]);                                                                    \
        LANES(d[l] = (expression););                                                                                   \
        break;                                                                                                         \
    }

/* f32: two loops, without and with flushing */
#define REAL_UNARY(op, expression)                                                                                     \
    case op: {                                                                                                         \
        uint32_t *d = ROW_OF(uint32_t, insn->o[0]);                                                                    \
        const float *pa = ROW_OF(float, insn->o[1]);                                                                   \
        if (insn->flags & F_FTZ)                                                                                       \
            LANES(float a = flush(pa[l]); d[l] = bits_of(flush(expression)););                                         \
        else                                                                                                           \
            LANES(float a = pa[l]; d[l] = bits_of(expression););                                                       \
        break;                                                                                                         \
    }

#define REAL_BINARY(op, expression)                                                                                    \
    case op: {                                                                                                         \
        uint32_t *d = ROW_OF(uint32_t, insn->o[0]);                                                                    \
        const float *pa = ROW_OF(float, insn->o[1]), *pb = ROW_OF(float, insn->o[2]);                                  \
        if (insn->flags & F_FTZ)                                                                                       \
            LANES(float a = flush(pa[l]); float b = flush(pb[l]); d[l] = bits_of(flush(expression)););                 \
        else                                                                                                           \
            LANES(float a = pa[l]; float b = pb[l]; d[l] = bits_of(expression););                                      \
        break;                                                                                                         \
    }

#define COMPARE_CASES(type)                                                                                            \
    {                                                                                                                  \
        const type *a = ROW_OF(type, insn->o[0]), *b = ROW_OF(type, insn->o[1]);                                       \
        switch (insn->compare) {                                                                                       \
        case CMP_EQ:                                                                                                   \
            LANES(bits |= (uint32_t)(a[l] == b[l]) << l;);                                                             \
            break;                                                                                                     \
        case CMP_NE:                                                                                                   \
            LANES(bits |= (uint32_t)(a[l] < b[l] || a[l] > b[l]) << l;);                                               \
            break;                                                                                                     \
        case CMP_LT:                                                                                                   \
            LANES(bits |= (uint32_t)(a[l] < b[l]) << l;);                                                              \
            break;                                                                                                     \
        case CMP_LE:                                                                                                   \
            LANES(bits |= (uint32_t)(a[l] <= b[l]) << l;);                                                             \
            break;                                                                                                     \
        case CMP_GT:                                                                                                   \
            LANES(bits |= (uint32_t)(a[l] > b[l]) << l;);                                                              \
            break;                                                                                                     \
        case CMP_GE:                                                                                                   \
            LANES(bits |= (uint32_t)(a[l] >= b[l]) << l;);                                                             \
            break;                                                                                                     \
        case CMP_EQU:                                                                                                  \
            LANES(bits |= (uint32_t) !(a[l] < b[l] || a[l] > b[l]) << l;);                                             \
            break;                                                                                                     \
        case CMP_NEU:                                                                                                  \
            LANES(bits |= (uint32_t)(a[l] != b[l]) << l;);                                                             \
            break;                                                                                                     \
        case CMP_LTU:                                                                                                  \
            LANES(bits |= (uint32_t) !(a[l] >= b[l]) << l;);                                                           \
            break;                                                                                                     \
        case CMP_LEU:                                                                                                  \
            LANES(bits |= (uint32_t) !(a[l] > b[l]) << l;);                                                            \
            break;                                                                                                     \
        case CMP_GTU:                                                                                                  \
            LANES(bits |= (uint32_t) !(a[l] <= b[l]) << l;);                                                           \
            break;                                                                                                     \
        default:                                                                                                       \
            LANES(bits |= (uint32_t) !(a[l] < b[l]) << l;);                                                            \
        }                                                                                                              \
    }

static uint32_t combine(const struct insn *insn, uint32_t answer, uint32_t with)
{
    switch (insn->combine) {
    case COMBINE_AND:
        return answer & with;
    case COMBINE_OR:
        return answer | with;
    case COMBINE_XOR:
        return answer ^ with;
    default:
        return answer;
    }
}

static void set_predicates(const struct insn *insn, uint32_t *preds, uint32_t active, uint32_t first, uint32_t second)
{
    uint32_t with = preds[insn->ps >> 1] ^ -(uint32_t)(insn->ps & 1);
    first = combine(insn, first, with);
    second = combine(insn, second, with);
    if (insn->pd)
        preds[insn->pd] = (preds[insn->pd] & ~active) | (first & active);
    if (insn->pd2)
        preds[insn->pd2] = (preds[insn->pd2] & ~active) | (second & active);
}

/* ---- instructions with more to do ---- */

static inline uint64_t operand_value(char *const base[4], uint32_t operand, unsigned lane)
{
    return operand & 1 ? ROW_OF(const uint64_t, operand)[lane] : ROW_OF(const uint32_t, operand)[lane];
}

static inline void set_operand(char *const base[4], uint32_t operand, unsigned lane, uint64_t value)
{
    if (operand & 1)
        ROW_OF(uint64_t, operand)[lane] = value;
    else
        ROW_OF(uint32_t, operand)[lane] = (uint32_t)value;
}

static void run_lane_function(const struct insn *insn, char *const base[4], uint32_t active)
{
    lane_fn *fn = insn->fn;
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint64_t v[4] = {0};
        for (unsigned i = 1; i < insn->operands; i++)
            v[i - 1] = operand_value(base, insn->o[i], l);
        set_operand(base, insn->o[0], l, fn(insn, v[0], v[1], v[2], v[3]));
    }
}

static void compare_lanes(const struct insn *insn, char *const base[4], uint32_t *preds, uint32_t active)
{
    uint32_t low = 0, high = 0;
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint64_t answer = insn->fn(insn, operand_value(base, insn->o[0], l), operand_value(base, insn->o[1], l), 0, 0);
        low |= (uint32_t)(answer & 1) << l;
        high |= (uint32_t)(answer >> 1 & 1) << l;
    }
    bool packed = insn->type == T_F16X2 || insn->type == T_BF16X2;
    set_predicates(insn, preds, active, low, packed ? high : ~low);
}

static void carry_lanes(struct warp *warp, const struct insn *insn, char *const base[4], uint32_t active)
{
    const unsigned bits = 64u - insn->shift;
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint64_t a = operand_value(base, insn->o[1], l), b = operand_value(base, insn->o[2], l), sum;
        unsigned in = insn->flags & F_CIN ? warp->carry >> l & 1 : 0, out;
        if (insn->sub == CARRY_SUB) { /* the condition code holds a borrow */
            unsigned __int128 wide = (unsigned __int128)a - b - in;
            sum = (uint64_t)wide;
            out = bits == 64 ? (unsigned)(wide >> 64) & 1 : (unsigned)(sum >> 32) & 1;
        } else {
            if (insn->sub == CARRY_MAD) {
                unsigned __int128 product = insn->flags & F_SIGNED
                                                ? (bits == 64 ? (unsigned __int128)((__int128)(int64_t)a * (int64_t)b)
                                                              : (unsigned __int128)((__int128)(int32_t)a * (int32_t)b))
                                                : (unsigned __int128)a * b;
                a = (uint64_t)(insn->flags & F_HI ? product >> bits : product);
                a = bits == 64 ? a : (uint32_t)a;
                b = operand_value(base, insn->o[3], l);
            }
            unsigned __int128 wide = (unsigned __int128)a + b + in;
            sum = (uint64_t)wide;
            out = (unsigned)(wide >> bits) & 1;
        }
        set_operand(base, insn->o[0], l, sum);
        if (insn->flags & F_CC)
            warp->carry = (warp->carry & ~(UINT32_C(1) << l)) | out << l;
    }
}

static void pack_lanes(const struct insn *insn, char *const base[4], uint32_t active)
{
    const unsigned bits = type_bits((enum ptype)insn->type), n = insn->count;
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        if (insn->op == OP_PACK) {
            uint64_t value = 0;
            for (unsigned i = 0; i < n; i++)
                value |= (operand_value(base, insn->o[i + 1], l) & mask) << i * bits;
            set_operand(base, insn->o[0], l, value);
        } else {
            uint64_t value = operand_value(base, insn->o[n], l);
            for (unsigned i = 0; i < n; i++)
                set_operand(base, insn->o[i], l, value >> i * bits & mask);
        }
    }
}

static uint64_t extend_loaded(const struct insn *insn, uint64_t value)
{
    return insn->type >= T_S8 && insn->type <= T_S64 ? (uint64_t)((int64_t)(value << insn->shift) >> insn->shift)
                                                     : value;
}

static inline uint64_t address_of(const struct insn *insn, char *const base[4], unsigned lane, unsigned operand)
{
    uint64_t address = operand_value(base, insn->o[operand], lane) + (uint64_t)insn->imm;
    return insn->o[operand] & 1 ? address : (uint32_t)address;
}

/*
 * The usual case: all lanes in shared memory or in the range that was used last. Gives the lanes' host addresses, all
 * 32 of them so that the loop needs no test; false sends the access lane by lane through resolve().
 */
static inline bool usual_addresses(const struct run *run, const struct warp *warp, const struct insn *insn,
                                   char *const base[4], uint32_t active, unsigned operand, unsigned total, bool write,
                                   uint64_t at[PTX_WARP_LANES])
{
    const uint64_t offset = (uint64_t)insn->imm;
    uint64_t lo, hi, start = 0;
    uint32_t wrong = 0;
    switch (insn->space) {
    case SP_SHARED:
        start = (uint64_t)(uintptr_t)warp->block->shared;
        lo = 0;
        hi = run->shared_bytes;
        break;
    case SP_GLOBAL:
    case SP_CONST:
    case SP_GENERIC:
        lo = run->ranges[write][0].lo;
        hi = run->ranges[write][0].hi;
        break;
    default:
        return false;
    }
    if (hi - lo < total)
        return false;
    const uint64_t last = hi - lo - total;
    if (insn->o[operand] & 1) {
        const uint64_t *a = ROW_OF(const uint64_t, insn->o[operand]);
        for (unsigned l = 0; l < PTX_WARP_LANES; l++)
            at[l] = a[l] + offset;
    } else {
        const uint32_t *a = ROW_OF(const uint32_t, insn->o[operand]);
        for (unsigned l = 0; l < PTX_WARP_LANES; l++)
            at[l] = (uint32_t)(a[l] + (uint32_t)offset);
    }
    for (unsigned l = 0; l < PTX_WARP_LANES; l++) {
        wrong |= (uint32_t)((at[l] - lo > last) | ((at[l] & (total - 1)) != 0)) << l;
        at[l] += start;
    }
    return (wrong & active) == 0;
}

/* The elements of a vector may be registers of both widths. */
static bool same_width(const struct insn *insn)
{
    for (unsigned i = 1; i < insn->count; i++) {
        if ((insn->o[i] ^ insn->o[0]) & 1)
            return false;
    }
    return true;
}

#define HOST(type, address) ((type *)(uintptr_t)(address))

static bool load_usual(const struct insn *insn, char *const base[4], uint32_t active, const uint64_t at[PTX_WARP_LANES])
{
    const bool wide = insn->o[0] & 1;
    if (!same_width(insn))
        return false;
    if (insn->bytes == 4 && !wide) {
        for (unsigned i = 0; i < insn->count; i++) {
            uint32_t *d = ROW_OF(uint32_t, insn->o[i]);
            LANES(d[l] = __atomic_load_n(HOST(const uint32_t, at[l]) + i, __ATOMIC_RELAXED););
        }
    } else if (insn->bytes == 8 && wide) {
        for (unsigned i = 0; i < insn->count; i++) {
            uint64_t *d = ROW_OF(uint64_t, insn->o[i]);
            LANES(d[l] = __atomic_load_n(HOST(const uint64_t, at[l]) + i, __ATOMIC_RELAXED););
        }
    } else if (insn->bytes == 2 && !wide && insn->type != T_S16) {
        for (unsigned i = 0; i < insn->count; i++) {
            uint32_t *d = ROW_OF(uint32_t, insn->o[i]);
            LANES(d[l] = __atomic_load_n(HOST(const uint16_t, at[l]) + i, __ATOMIC_RELAXED););
        }
    } else {
        return false;
    }
    return true;
}

static bool store_usual(const struct insn *insn, char *const base[4], uint32_t active,
                        const uint64_t at[PTX_WARP_LANES])
{
    const bool wide = insn->o[0] & 1;
    if (!same_width(insn))
        return false;
    if (insn->bytes == 4 && !wide) {
        for (unsigned i = 0; i < insn->count; i++) {
            const uint32_t *v = ROW_OF(const uint32_t, insn->o[i]);
            LANES(__atomic_store_n(HOST(uint32_t, at[l]) + i, v[l], __ATOMIC_RELAXED););
        }
    } else if (insn->bytes == 8 && wide) {
        for (unsigned i = 0; i < insn->count; i++) {
            const uint64_t *v = ROW_OF(const uint64_t, insn->o[i]);
            LANES(__atomic_store_n(HOST(uint64_t, at[l]) + i, v[l], __ATOMIC_RELAXED););
        }
    } else if (insn->bytes == 2 && !wide) {
        for (unsigned i = 0; i < insn->count; i++) {
            const uint32_t *v = ROW_OF(const uint32_t, insn->o[i]);
            LANES(__atomic_store_n(HOST(uint16_t, at[l]) + i, (uint16_t)v[l], __ATOMIC_RELAXED););
        }
    } else {
        return false;
    }
    return true;
}

static bool load_lanes(struct run *run, struct warp *warp, const struct insn *insn, char *const base[4],
                       uint32_t active, bool *turn)
{
    const unsigned count = insn->count, bytes = insn->bytes, total = count * bytes;
    uint64_t value = 0, usual[PTX_WARP_LANES];
    bool done = !(insn->flags & F_POLL) && usual_addresses(run, warp, insn, base, active, count, total, false, usual) &&
                load_usual(insn, base, active, usual);
    for (uint32_t left = done ? 0 : active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        const char *at = resolve(run, warp, l, insn, address_of(insn, base, l, count), total, false);
        if (!at)
            return false;
        for (unsigned i = 0; i < count; i++) {
            uint64_t raw = insn->flags & F_POLL ? load_acquire(at + i * bytes, bytes) : load(at + i * bytes, bytes);
            value = extend_loaded(insn, raw);
            set_operand(base, insn->o[i], l, value);
        }
    }
    if (insn->space != SP_SHARED && insn->space != SP_LOCAL)
        run->stats.global_read_bytes += (uint64_t)total * (uint64_t)__builtin_popcount(active);
    if (insn->flags & F_POLL)
        poll(warp, (uint32_t)(insn - run->code), value, turn);
    return true;
}

static bool store_lanes(struct run *run, struct warp *warp, const struct insn *insn, char *const base[4],
                        uint32_t active)
{
    const unsigned count = insn->count, bytes = insn->bytes, total = count * bytes;
    uint64_t usual[PTX_WARP_LANES];
    bool done = !(insn->flags & F_POLL) && usual_addresses(run, warp, insn, base, active, count, total, true, usual) &&
                store_usual(insn, base, active, usual);
    for (uint32_t left = done ? 0 : active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        char *at = resolve(run, warp, l, insn, address_of(insn, base, l, count), total, true);
        if (!at)
            return false;
        for (unsigned i = 0; i < count; i++) {
            if (insn->flags & F_POLL)
                store_release(at + i * bytes, bytes, operand_value(base, insn->o[i], l));
            else
                store(at + i * bytes, bytes, operand_value(base, insn->o[i], l));
        }
    }
    if (insn->space != SP_SHARED && insn->space != SP_LOCAL)
        run->stats.global_write_bytes += (uint64_t)total * (uint64_t)__builtin_popcount(active);
    return true;
}

static bool atomic_lanes(struct run *run, struct warp *warp, const struct insn *insn, char *const base[4],
                         uint32_t active, bool *turn)
{
    uint64_t old = 0;
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        char *at = resolve(run, warp, l, insn, address_of(insn, base, l, 1), insn->bytes, true);
        if (!at)
            return false;
        old = atomic(insn, at, operand_value(base, insn->o[2], l), operand_value(base, insn->o[3], l));
        set_operand(base, insn->o[0], l, old);
    }
    run->stats.atomics += (uint64_t)__builtin_popcount(active);
    if (insn->flags & F_POLL) /* not red, which gives no answer to wait for */
        poll(warp, (uint32_t)(insn - run->code), old, turn);
    return true;
}

/* Copies to shared memory at once; what the source does not fill is zero. */
static bool copy_lanes(struct run *run, struct warp *warp, const struct insn *insn, char *const base[4],
                       const uint32_t *preds, uint32_t active)
{
    const uint32_t ignore = preds[insn->ps >> 1] ^ -(uint32_t)(insn->ps & 1);
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint32_t bytes = (uint32_t)operand_value(base, insn->o[2], l);
        uint64_t source = operand_value(base, insn->o[1], l), target = operand_value(base, insn->o[0], l);
        bytes = ignore >> l & 1 ? 0 : bytes > insn->bytes ? insn->bytes : bytes;
        if (target % insn->bytes || target >= run->shared_bytes || insn->bytes > run->shared_bytes - target)
            return run_fault(run, warp, l, target % insn->bytes ? PTX_FAULT_MISALIGNED : PTX_FAULT_ILLEGAL_ADDRESS,
                             (uint32_t)(insn - run->code), target, insn->bytes, true),
                   false;
        char *write = warp->block->shared + target;
        if (bytes && (source % insn->bytes || !run_access(run, source, bytes, false)))
            return run_fault(run, warp, l, source % insn->bytes ? PTX_FAULT_MISALIGNED : PTX_FAULT_ILLEGAL_ADDRESS,
                             (uint32_t)(insn - run->code), source, bytes, false),
                   false;
        if (bytes)
            memcpy(write, (const char *)(uintptr_t)source, bytes);
        memset(write + bytes, 0, insn->bytes - bytes);
    }
    run->stats.global_read_bytes += (uint64_t)insn->bytes * (uint64_t)__builtin_popcount(active);
    return true;
}

static bool mbarrier_lanes(struct run *run, struct warp *warp, const struct insn *insn, char *const base[4],
                           uint32_t active, bool *turn)
{
    bool waits = false;
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        if (insn->sub == MBAR_PENDING) { /* of a state: the pending count in its low bits */
            set_operand(base, insn->o[0], l, operand_value(base, insn->o[1], l) & 0xfffff);
            continue;
        }
        char *at = resolve(run, warp, l, insn, address_of(insn, base, l, 1), 8, true);
        if (!at)
            return false;
        warp_mbarrier(run, warp, insn, l, at, &waits);
    }
    *turn |= waits;
    return true;
}

static void isspacep_lanes(const struct insn *insn, char *const base[4], uint32_t *preds, uint32_t active)
{
    uint32_t bits = 0;
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint64_t address = operand_value(base, insn->o[0], l);
        bool shared = address - PTX_WINDOW_SHARED < PTX_WINDOW_BYTES;
        bool local = address - PTX_WINDOW_LOCAL < PTX_WINDOW_BYTES;
        bool param = address - PTX_WINDOW_PARAM < PTX_WINDOW_BYTES;
        bool answer = insn->space == SP_SHARED  ? shared
                      : insn->space == SP_LOCAL ? local
                      : insn->space == SP_PARAM_KERNEL || insn->space == SP_PARAM_FRAME
                          ? param
                          : insn->space == SP_GLOBAL && !shared && !local && !param;
        bits |= (uint32_t)answer << l;
    }
    preds[insn->pd] = insn->pd ? (preds[insn->pd] & ~active) | bits : preds[insn->pd];
}

static void special_lanes(const struct run *run, const struct warp *warp, const struct insn *insn, char *const base[4],
                          uint32_t *preds, uint32_t active)
{
    if (insn->pd) {
        uint32_t bits = special_value32(run, warp, 0, (unsigned)insn->imm) ? active : 0;
        preds[insn->pd] = (preds[insn->pd] & ~active) | bits;
        return;
    }
    if (insn->operands == 0)
        return;
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        set_operand(base, insn->o[0], l,
                    insn->o[0] & 1 ? special_value64(run, warp, l, (unsigned)insn->imm)
                                   : special_value32(run, warp, l, (unsigned)insn->imm));
    }
}

static void frame_lanes(const struct run *run, const struct warp *warp, const struct insn *insn, char *const base[4],
                        uint32_t fp, uint32_t active)
{
    for (uint32_t left = active; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        char *at = thread_local_memory(run, warp, l) + fp + insn->imm;
        for (unsigned i = 0; i < insn->count; i++) {
            if (insn->op == OP_LD_FRAME)
                set_operand(base, insn->o[i], l, extend_loaded(insn, load(at + i * insn->bytes, insn->bytes)));
            else
                store(at + i * insn->bytes, insn->bytes, operand_value(base, insn->o[i], l));
        }
    }
}

static void load_params(const struct run *run, const struct insn *insn, char *const base[4], uint32_t active)
{
    for (unsigned i = 0; i < insn->count; i++) {
        uint64_t value = extend_loaded(insn, load(run->params + insn->imm + i * insn->bytes, insn->bytes));
        if (insn->o[i] & 1) {
            uint64_t *d = ROW_OF(uint64_t, insn->o[i]);
            LANES(d[l] = value;);
        } else {
            uint32_t *d = ROW_OF(uint32_t, insn->o[i]);
            LANES(d[l] = (uint32_t)value;);
        }
    }
}

/* Calls through pointers: the lanes of each target go together. */
static enum ptx_fault_kind call_pointers(struct run *run, struct warp *warp, const struct insn *insn,
                                         char *const base[4], uint32_t active, const struct call_site *site,
                                         unsigned *lane, bool *nomem)
{
    const struct ptx_module *module = run->module;
    uint64_t targets[PTX_WARP_LANES];
    for (uint32_t left = active; left; left &= left - 1) /* read all first: a call may move the rows */
        targets[__builtin_ctz(left)] = operand_value(base, insn->o[0], (unsigned)__builtin_ctz(left));
    while (active && !*nomem) {
        uint32_t together = 0;
        *lane = (unsigned)__builtin_ctz(active);
        uint64_t target = targets[*lane] - PTX_WINDOW_CODE;
        if (target < module->function_count && module->functions[target].alias >= 0)
            target = (uint64_t)module->functions[target].alias;
        if (target >= module->function_count || !module->functions[target].defined ||
            module->functions[target].is_entry)
            return PTX_FAULT_BAD_CALL;
        for (uint32_t left = active; left; left &= left - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(left);
            together |= (uint32_t)(targets[l] == targets[*lane]) << l;
        }
        enum ptx_fault_kind kind = warp_call(run, warp, together, (uint32_t)target, site, nomem);
        if (kind)
            return kind;
        active &= ~together;
    }
    return PTX_FAULT_NONE;
}

/* ---- the loop ---- */

static void count(struct run *run, const struct group *group, uint32_t executed)
{
    run->stats.warp_instructions += executed;
    run->stats.thread_instructions += (uint64_t)executed * (uint64_t)__builtin_popcount(group->mask);
}

enum step PTX_EXEC_NAME(struct run *run, struct warp *warp, uint32_t budget)
{
    const struct insn *const code = run->code;
    const bool calls = run->kernel->calls;
    struct group group;
    char *base[4];
    uint32_t *preds, fp, pc, begin;
    const struct function *function;
    const struct insn *insn;
    uint32_t active;
    enum ptx_fault_kind kind;
    unsigned fault_lane;
    bool nomem = false, turn = false; /* turn: end it, whatever the budget */

choose:
    if (!choose_group(warp, calls, &group))
        return warp->live ? STEP_BLOCKED : STEP_DONE;
    {
        const struct frame *frame = &warp->frame[group.lead];
        function = &run->module->functions[frame->function];
        base[POOL_R32] = warp->r32 + (size_t)frame->b32 * ROW32;
        base[POOL_R64] = warp->r64 + (size_t)frame->b64 * ROW64;
        base[POOL_C32] = base[POOL_C64] = (char *)(uintptr_t)run_constants(run, frame->function);
        preds = warp->preds + frame->bp;
        fp = frame->fp;
        if (!base[POOL_C32])
            return STEP_NOMEM;
    }
    pc = group.pc;
    begin = budget;

    for (;;) {
        insn = &code[pc];
        active = group.mask & (preds[insn->guard >> 1] ^ -(uint32_t)(insn->guard & 1));
        pc++;
        if (active == 0)
            goto next;
        switch (insn->op) {
        case OP_LANE:
            run_lane_function(insn, base, active);
            break;
            UNARY(OP_MOV32, uint32_t, uint32_t, a[l])
            UNARY(OP_MOV64, uint64_t, uint64_t, a[l])
        case OP_SREG:
            special_lanes(run, warp, insn, base, preds, active);
            break;
        case OP_LOCAL_ADDR: {
            uint64_t *d = ROW_OF(uint64_t, insn->o[0]), value = fp + (uint64_t)insn->imm;
            LANES(d[l] = value;);
            break;
        }
        case OP_PACK:
        case OP_UNPACK:
            pack_lanes(insn, base, active);
            break;
            BINARY(OP_ADD32, uint32_t, uint32_t, a[l] + b[l])
            BINARY(OP_SUB32, uint32_t, uint32_t, a[l] - b[l])
            BINARY(OP_MUL32, uint32_t, uint32_t, a[l] * b[l])
            TERNARY(OP_MAD32, uint32_t, uint32_t, uint32_t, a[l] * b[l] + c[l])
            BINARY(OP_ADD64, uint64_t, uint64_t, a[l] + b[l])
            BINARY(OP_SUB64, uint64_t, uint64_t, a[l] - b[l])
            BINARY(OP_MUL64, uint64_t, uint64_t, a[l] * b[l])
            TERNARY(OP_MAD64, uint64_t, uint64_t, uint64_t, a[l] * b[l] + c[l])
            BINARY(OP_MUL_WIDE_U32, uint32_t, uint64_t, (uint64_t)a[l] * b[l])
            BINARY(OP_MUL_WIDE_S32, int32_t, int64_t, (int64_t)a[l] * b[l])
            TERNARY(OP_MAD_WIDE_U32, uint32_t, uint64_t, uint64_t, (uint64_t)a[l] * b[l] + c[l])
            TERNARY(OP_MAD_WIDE_S32, int32_t, uint64_t, uint64_t, (uint64_t)((int64_t)a[l] * b[l]) + c[l])
            BINARY(OP_AND32, uint32_t, uint32_t, a[l] & b[l])
            BINARY(OP_OR32, uint32_t, uint32_t, a[l] | b[l])
            BINARY(OP_XOR32, uint32_t, uint32_t, a[l] ^ b[l])
            UNARY(OP_NOT32, uint32_t, uint32_t, ~a[l])
            BINARY(OP_AND64, uint64_t, uint64_t, a[l] & b[l])
            BINARY(OP_OR64, uint64_t, uint64_t, a[l] | b[l])
            BINARY(OP_XOR64, uint64_t, uint64_t, a[l] ^ b[l])
            UNARY(OP_NOT64, uint64_t, uint64_t, ~a[l])
            BINARY(OP_SHL32, uint32_t, uint32_t, b[l] > 31 ? 0 : a[l] << (b[l] & 31))
            BINARY(OP_SHR_U32, uint32_t, uint32_t, b[l] > 31 ? 0 : a[l] >> (b[l] & 31))
            BINARY2(OP_SHR_S32, int32_t, uint32_t, int32_t, a[l] >> (b[l] > 31 ? 31 : b[l]))
            BINARY2(OP_SHL64, uint64_t, uint32_t, uint64_t, b[l] > 63 ? 0 : a[l] << (b[l] & 63))
            BINARY2(OP_SHR_U64, uint64_t, uint32_t, uint64_t, b[l] > 63 ? 0 : a[l] >> (b[l] & 63))
            BINARY2(OP_SHR_S64, int64_t, uint32_t, int64_t, a[l] >> (b[l] > 63 ? 63 : b[l]))
            BINARY(OP_MIN_U32, uint32_t, uint32_t, a[l] < b[l] ? a[l] : b[l])
            BINARY(OP_MAX_U32, uint32_t, uint32_t, a[l] > b[l] ? a[l] : b[l])
            BINARY(OP_MIN_S32, int32_t, int32_t, a[l] < b[l] ? a[l] : b[l])
            BINARY(OP_MAX_S32, int32_t, int32_t, a[l] > b[l] ? a[l] : b[l])
            REAL_BINARY(OP_ADD_F32, a + b)
            REAL_BINARY(OP_SUB_F32, a - b)
            REAL_BINARY(OP_MUL_F32, a * b)
        case OP_FMA_F32: {
            uint32_t *d = ROW_OF(uint32_t, insn->o[0]);
            const float *a = ROW_OF(float, insn->o[1]), *b = ROW_OF(float, insn->o[2]), *c = ROW_OF(float, insn->o[3]);
            if (insn->flags & F_FTZ)
                LANES(d[l] = bits_of(flush(__builtin_fmaf(flush(a[l]), flush(b[l]), flush(c[l])))););
            else
                LANES(d[l] = bits_of(__builtin_fmaf(a[l], b[l], c[l])););
            break;
        }
            REAL_BINARY(OP_MIN_F32, smaller(a, b))
            REAL_BINARY(OP_MAX_F32, larger(a, b))
            REAL_UNARY(OP_NEG_F32, -a)
            REAL_UNARY(OP_ABS_F32, fabsf(a))
            BINARY(OP_ADD_F64, double, double, a[l] + b[l])
            BINARY(OP_SUB_F64, double, double, a[l] - b[l])
            BINARY(OP_MUL_F64, double, double, a[l] * b[l])
            TERNARY(OP_FMA_F64, double, double, double, __builtin_fma(a[l], b[l], c[l]))
            UNARY(OP_ZEXT64, uint32_t, uint64_t, a[l])
            UNARY(OP_SEXT64, int32_t, int64_t, a[l])
            UNARY(OP_TRUNC32, uint64_t, uint32_t, (uint32_t)a[l])
            UNARY(OP_S32_TO_F32, int32_t, float, (float)a[l])
        case OP_CARRY:
            carry_lanes(warp, insn, base, active);
            break;
        case OP_SETP: {
            uint32_t bits = 0;
            switch (insn->type) {
            case T_F32:
                COMPARE_CASES(float) break;
            case T_F64:
                COMPARE_CASES(double) break;
            case T_S32:
                COMPARE_CASES(int32_t) break;
            case T_S64:
                COMPARE_CASES(int64_t) break;
            case T_B64:
            case T_U64:
                COMPARE_CASES(uint64_t) break;
            default:
                COMPARE_CASES(uint32_t)
            }
            set_predicates(insn, preds, active, bits, ~bits);
            break;
        }
        case OP_SETP_LANE:
            compare_lanes(insn, base, preds, active);
            break;
        case OP_SELP32: {
            uint32_t *d = ROW_OF(uint32_t, insn->o[0]), p = preds[insn->ps >> 1] ^ -(uint32_t)(insn->ps & 1);
            const uint32_t *a = ROW_OF(uint32_t, insn->o[1]), *b = ROW_OF(uint32_t, insn->o[2]);
            LANES(d[l] = p >> l & 1 ? a[l] : b[l];);
            break;
        }
        case OP_SELP64: {
            uint64_t *d = ROW_OF(uint64_t, insn->o[0]);
            const uint64_t *a = ROW_OF(uint64_t, insn->o[1]), *b = ROW_OF(uint64_t, insn->o[2]);
            uint32_t p = preds[insn->ps >> 1] ^ -(uint32_t)(insn->ps & 1);
            LANES(d[l] = p >> l & 1 ? a[l] : b[l];);
            break;
        }
        case OP_MOV_PRED:
        case OP_AND_PRED:
        case OP_OR_PRED:
        case OP_XOR_PRED: {
            uint32_t a = preds[insn->ps >> 1] ^ -(uint32_t)(insn->ps & 1);
            uint32_t b = preds[insn->ps2 >> 1] ^ -(uint32_t)(insn->ps2 & 1);
            a = insn->op == OP_MOV_PRED ? a : insn->op == OP_AND_PRED ? a & b : insn->op == OP_OR_PRED ? a | b : a ^ b;
            if (insn->pd)
                preds[insn->pd] = (preds[insn->pd] & ~active) | (a & active);
            break;
        }
        case OP_LD:
            if (!load_lanes(run, warp, insn, base, active, &turn))
                goto fault;
            break;
        case OP_ST:
            if (!store_lanes(run, warp, insn, base, active))
                goto fault;
            break;
        case OP_LD_PARAM:
            load_params(run, insn, base, active);
            break;
        case OP_LD_FRAME:
        case OP_ST_FRAME:
            frame_lanes(run, warp, insn, base, fp, active);
            break;
        case OP_ATOM:
            if (!atomic_lanes(run, warp, insn, base, active, &turn))
                goto fault;
            break;
        case OP_FENCE:
            full_fence(run);
            break;
        case OP_CP_ASYNC:
            if (!copy_lanes(run, warp, insn, base, preds, active))
                goto fault;
            break;
        case OP_ISSPACEP:
            isspacep_lanes(insn, base, preds, active);
            break;
        case OP_MBARRIER:
            if (!mbarrier_lanes(run, warp, insn, base, active, &turn))
                goto fault;
            break;
        case OP_BRA:
            if (active == group.mask) {
                pc = (uint32_t)insn->imm;
                break;
            }
            set_pcs(warp, group.mask & ~active, pc);
            set_pcs(warp, active, (uint32_t)insn->imm);
            goto leave;
        case OP_BRX: {
            const struct jump_table *table = &function->tables[insn->imm];
            const uint32_t *index = ROW_OF(uint32_t, insn->o[0]);
            set_pcs(warp, group.mask & ~active, pc);
            for (uint32_t left = active; left;
                 left &= left - 1) { /* an index beyond the table is undefined: the last */
                unsigned l = (unsigned)__builtin_ctz(left);
                uint32_t entry = index[l] < table->count ? index[l] : table->count - 1;
                warp->pc[l] = function->targets[table->first + entry];
            }
            goto leave;
        }
        case OP_CALL:
        case OP_CALL_POINTER: {
            const struct call_site *site = &function->calls_at[insn->imm];
            set_pcs(warp, group.mask, pc);
            fault_lane = (unsigned)__builtin_ctz(active);
            kind = insn->op == OP_CALL ? warp_call(run, warp, active, site->callee, site, &nomem)
                                       : call_pointers(run, warp, insn, base, active, site, &fault_lane, &nomem);
            if (nomem)
                return STEP_NOMEM;
            if (kind)
                goto fault_here;
            goto leave;
        }
        case OP_CALL_BUILTIN:
            fault_lane = (unsigned)__builtin_ctz(active);
            kind = PTX_FAULT_ASSERT;
            if (insn->sub == BUILTIN_ASSERT)
                goto fault_here;
            warp_builtin(run, warp, active, &function->calls_at[insn->imm]);
            break;
        case OP_RET:
            set_pcs(warp, group.mask, pc);
            warp_return(run, warp, active);
            goto leave;
        case OP_EXIT:
            set_pcs(warp, group.mask, pc);
            warp_exit(run, warp, active);
            goto leave;
        case OP_TRAP:
            fault_lane = (unsigned)__builtin_ctz(active);
            kind = PTX_FAULT_TRAP;
            goto fault_here;
        case OP_BAR:
            set_pcs(warp, group.mask, pc);
            warp_barrier(run, warp, insn, active);
            goto leave;
        case OP_WARP_SYNC: {
            bool others = warp->wait_sync != 0;
            set_pcs(warp, group.mask, pc);
            warp_sync(run, warp, active);
            if (!others && (warp->run & group.mask) == group.mask)
                break; /* complete at once */
            goto leave;
        }
        case OP_ACTIVEMASK: {
            uint32_t *d = ROW_OF(uint32_t, insn->o[0]), value = active;
            LANES(d[l] = value;);
            break;
        }
        case OP_CLUSTER_ARRIVE:
            warp_cluster_arrive(run, warp, active);
            break;
        case OP_CLUSTER_WAIT:
            set_pcs(warp, group.mask, pc);
            warp_cluster_wait(run, warp, active);
            goto leave;
        case OP_NANOSLEEP: {
            const uint32_t *a = ROW_OF(uint32_t, insn->o[0]);
            warp->sleep_ns = a[__builtin_ctz(active)];
            set_pcs(warp, group.mask, pc);
            warp->skip |= group.mask;
            count(run, &group, begin - budget + 1);
            return STEP_SLEEP;
        }
        default:
            break; /* OP_NOP */
        }
    next:
        budget--;
        if (budget == 0 || turn) {
            set_pcs(warp, group.mask, pc);
            warp->skip |= group.mask;
            count(run, &group, begin - budget);
            return turn ? STEP_POLL : STEP_TURN;
        }
        if (pc >= group.meet) {
            set_pcs(warp, group.mask, pc);
            count(run, &group, begin - budget);
            goto choose;
        }
        continue;
    leave: /* pcs are stored */
        budget--;
        if (budget == 0) {
            warp->skip |= group.mask;
            count(run, &group, begin - budget);
            return STEP_TURN;
        }
        count(run, &group, begin - budget);
        goto choose;
    }

fault_here:
    run_fault(run, warp, fault_lane, kind, (uint32_t)(insn - code), 0, 0, false);
fault:
    count(run, &group, begin - budget + 1);
    return STEP_FAULT;
}
