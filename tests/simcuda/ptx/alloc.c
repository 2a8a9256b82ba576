/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual registers to rows. A PTX body names every value once, so a kernel may name thousands of registers of which a
 * few dozen live at a time; rows of dead registers are used again, which keeps a warp's registers in the cache and
 * gives an estimate of what a real compiler would need.
 *
 * Liveness is solved per thread on the flow graph, then each register gets the hull of the places where it is live, and
 * rows are handed out in order of the hulls' starts. A register read and a register written by one instruction never
 * share a row, because vector instructions write one element before they read the next address. An instruction with a
 * guard keeps the old value where the guard is false, so it does not end the life of what it writes. Lanes of a
 * divergent warp do not disturb each other: each has its own column, and rows of different width are never shared.
 */
#include "tests/simcuda/ptx/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct block {
    uint32_t first, end; /* instructions, relative */
    uint32_t successor[2];
    const uint32_t *targets; /* of a jump table: absolute pcs */
    uint32_t target_count;
};

struct analysis {
    const struct alloc_input *input;
    uint32_t registers; /* all pools in one numbering: r32, then r64, then predicates */
    uint32_t words;     /* of a bit set */
    struct block *blocks;
    uint32_t block_count;
    uint32_t *block_of;    /* by instruction */
    uint64_t *in, *out;    /* live sets, block_count * words */
    uint32_t *start, *end; /* hull of each register, start > end: never used */
};

enum { NONE = UINT32_MAX };

static const uint64_t SET_BYTES_MAX = UINT64_C(256) << 20; /* beyond this every register simply keeps its own row */

static uint32_t unify(const struct alloc_input *input, uint32_t operand)
{
    if ((operand & 3) == POOL_R32)
        return operand >> 2;
    return (operand & 3) == POOL_R64 ? input->r32 + (operand >> 2) : NONE;
}

/* Calls visit(register, is_write) for everything that an instruction touches; predicate 0 is a constant. */
#define FOR_EACH_ACCESS(a, insn, reg, is_write, code)                                                                  \
    do {                                                                                                               \
        const uint32_t pred_base_ = (a)->input->r32 + (a)->input->r64;                                                 \
        for (unsigned i_ = 0; i_ < (insn)->operands; i_++) {                                                           \
            uint32_t reg = unify((a)->input, (insn)->o[i_]);                                                           \
            bool is_write = i_ < (insn)->dests;                                                                        \
            if (reg != NONE) {                                                                                         \
                code                                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
        const uint32_t preds_[5] = {(insn)->pd, (insn)->pd2, (insn)->guard >> 1, (insn)->ps >> 1, (insn)->ps2 >> 1};   \
        for (unsigned i_ = 0; i_ < 5; i_++) {                                                                          \
            uint32_t reg = pred_base_ + preds_[i_];                                                                    \
            bool is_write = i_ < 2;                                                                                    \
            if (preds_[i_]) {                                                                                          \
                code                                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

static bool ends_block(const struct insn *insn)
{
    return insn->op == OP_BRA || insn->op == OP_BRX || insn->op == OP_RET || insn->op == OP_EXIT;
}

static int find_blocks(struct analysis *a)
{
    const struct alloc_input *input = a->input;
    const uint32_t base = input->function->first_pc, count = input->count;
    a->block_of = calloc(count + 1, sizeof(uint32_t));
    if (!a->block_of)
        return -ENOMEM;
    /* mark leaders first */
    a->block_of[0] = 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct insn *insn = &input->code[i];
        if (insn->op == OP_BRA) {
            a->block_of[(uint32_t)insn->imm - base] = 1;
        } else if (insn->op == OP_BRX) {
            const struct jump_table *table = &input->function->tables[insn->imm];
            for (uint32_t j = 0; j < table->count; j++)
                a->block_of[input->function->targets[table->first + j] - base] = 1;
        }
        if (ends_block(insn))
            a->block_of[i + 1] = 1;
    }
    for (uint32_t i = 0; i < count; i++)
        a->block_count += a->block_of[i];
    a->blocks = calloc(a->block_count, sizeof(*a->blocks));
    if (!a->blocks)
        return -ENOMEM;
    uint32_t block = NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (a->block_of[i])
            a->blocks[++block].first = i; /* NONE wraps to 0 */
        a->block_of[i] = block;
        a->blocks[block].end = i + 1;
    }
    for (block = 0; block < a->block_count; block++) {
        struct block *b = &a->blocks[block];
        const struct insn *last = &input->code[b->end - 1];
        bool falls = last->guard || !ends_block(last);
        b->successor[0] = falls && block + 1 < a->block_count ? block + 1 : NONE;
        b->successor[1] = NONE;
        if (last->op == OP_BRA) {
            b->successor[1] = a->block_of[(uint32_t)last->imm - base];
        } else if (last->op == OP_BRX) {
            const struct jump_table *table = &input->function->tables[last->imm];
            b->targets = &input->function->targets[table->first];
            b->target_count = table->count;
        }
    }
    return 0;
}

static bool merge(uint64_t *to, const uint64_t *from, uint32_t words)
{
    uint64_t changed = 0;
    for (uint32_t i = 0; i < words; i++) {
        changed |= from[i] & ~to[i];
        to[i] |= from[i];
    }
    return changed != 0;
}

/* in = uses before a write + (out - written) */
static bool transfer(struct analysis *a, uint32_t block, uint64_t *live)
{
    const struct block *b = &a->blocks[block];
    memcpy(live, &a->out[(size_t)block * a->words], a->words * sizeof(*live));
    for (uint32_t i = b->end; i-- > b->first;) {
        const struct insn *insn = &a->input->code[i];
        if (!insn->guard)
            FOR_EACH_ACCESS(a, insn, reg, is_write, if (is_write) live[reg / 64] &= ~(UINT64_C(1) << reg % 64););
        FOR_EACH_ACCESS(a, insn, reg, is_write,
                        if (!is_write || insn->guard) live[reg / 64] |= UINT64_C(1) << reg % 64;);
    }
    return merge(&a->in[(size_t)block * a->words], live, a->words);
}

static int solve(struct analysis *a)
{
    uint64_t *live = calloc(a->words, sizeof(*live));
    if (!live)
        return -ENOMEM;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t block = a->block_count; block-- > 0;) {
            const struct block *b = &a->blocks[block];
            uint64_t *out = &a->out[(size_t)block * a->words];
            for (int i = 0; i < 2; i++) {
                if (b->successor[i] != NONE)
                    merge(out, &a->in[(size_t)b->successor[i] * a->words], a->words);
            }
            for (uint32_t i = 0; i < b->target_count; i++) {
                uint32_t to = a->block_of[b->targets[i] - a->input->function->first_pc];
                merge(out, &a->in[(size_t)to * a->words], a->words);
            }
            changed |= transfer(a, block, live);
        }
    }
    free(live);
    return 0;
}

static void extend(struct analysis *a, uint32_t reg, uint32_t at)
{
    if (at < a->start[reg])
        a->start[reg] = at;
    if (at > a->end[reg] || a->end[reg] == NONE)
        a->end[reg] = at;
}

static void find_hulls(struct analysis *a, bool solved)
{
    for (uint32_t i = 0; i < a->registers; i++)
        a->start[i] = a->end[i] = NONE;
    for (uint32_t i = 0; i < a->input->count; i++) {
        const struct insn *insn = &a->input->code[i];
        FOR_EACH_ACCESS(a, insn, reg, is_write, (void)is_write; extend(a, reg, i););
    }
    for (uint32_t reg = 0; reg < a->registers && !solved; reg++) {
        if (a->start[reg] != NONE) {
            a->start[reg] = 0;
            a->end[reg] = a->input->count;
        }
    }
    for (uint32_t block = 0; block < a->block_count && solved; block++) {
        const struct block *b = &a->blocks[block];
        for (uint32_t word = 0; word < a->words; word++) {
            uint64_t in = a->in[(size_t)block * a->words + word], out = a->out[(size_t)block * a->words + word];
            for (; in; in &= in - 1)
                extend(a, word * 64 + (uint32_t)__builtin_ctzll(in), b->first);
            for (; out; out &= out - 1)
                extend(a, word * 64 + (uint32_t)__builtin_ctzll(out), b->end - 1);
        }
    }
}

/* Linear scan over one pool: registers first .. first + count. row[] gets the rows, the result is their number. */
struct scan {
    const struct analysis *a;
    uint32_t first, count;
    uint32_t *order; /* by start */
    uint32_t *row;   /* of each register */
    uint32_t *free_rows, free_count;
    uint32_t *ending, *next; /* by instruction: registers whose hull ends there */
};

static void count_sort_by_start(struct scan *scan, uint32_t *bucket, uint32_t places)
{
    memset(bucket, 0, (places + 2) * sizeof(*bucket));
    for (uint32_t i = 0; i < scan->count; i++) {
        if (scan->a->start[scan->first + i] != NONE)
            bucket[scan->a->start[scan->first + i] + 1]++;
    }
    for (uint32_t i = 0; i < places; i++)
        bucket[i + 1] += bucket[i];
    for (uint32_t i = 0; i < scan->count; i++) {
        if (scan->a->start[scan->first + i] != NONE)
            scan->order[bucket[scan->a->start[scan->first + i]]++] = i;
    }
}

static int scan_pool(const struct analysis *a, uint32_t first, uint32_t count, uint32_t *row, uint32_t *rows)
{
    const uint32_t places = a->input->count + 1;
    struct scan scan = {.a = a, .first = first, .count = count, .row = row};
    uint32_t used = 0, *bucket = calloc(places + 2, sizeof(uint32_t));
    int error = -ENOMEM;
    scan.order = calloc((size_t)count + 1, sizeof(uint32_t));
    scan.free_rows = calloc((size_t)count + 1, sizeof(uint32_t));
    scan.next = calloc((size_t)count + 1, sizeof(uint32_t));
    scan.ending = calloc(places + 1, sizeof(uint32_t));
    if (!bucket || !scan.order || !scan.free_rows || !scan.next || !scan.ending)
        goto done;
    count_sort_by_start(&scan, bucket, places);
    uint32_t live_from = 0, total = 0;
    for (uint32_t i = 0; i < count; i++)
        total += a->start[first + i] != NONE;
    for (uint32_t i = 0; i < total; i++) {
        uint32_t reg = scan.order[i], start = a->start[first + reg], end = a->end[first + reg];
        for (; live_from < start; live_from++) { /* what ended before this start is free again */
            for (uint32_t old = scan.ending[live_from]; old; old = scan.next[old - 1])
                scan.free_rows[scan.free_count++] = row[old - 1];
        }
        row[reg] = scan.free_count ? scan.free_rows[--scan.free_count] : used++;
        scan.next[reg] = scan.ending[end];
        scan.ending[end] = reg + 1;
    }
    *rows = used;
    error = 0;
done:
    free(bucket);
    free(scan.order);
    free(scan.free_rows);
    free(scan.next);
    free(scan.ending);
    return error;
}

static void rewrite(const struct analysis *a, const uint32_t *row)
{
    const struct alloc_input *input = a->input;
    const uint32_t *preds = row + input->r32 + input->r64;
    for (uint32_t i = 0; i < input->count; i++) {
        struct insn *insn = &input->code[i];
        for (unsigned j = 0; j < insn->operands; j++) {
            uint32_t reg = unify(input, insn->o[j]);
            if (reg != NONE)
                insn->o[j] = row[reg] * (insn->o[j] & 1 ? ROW64 : ROW32) | (insn->o[j] & 3);
        }
        /* row 0 of the predicates is "true" */
        insn->guard =
            (uint16_t)(insn->guard >> 1 ? (preds[insn->guard >> 1] + 1) << 1 | (insn->guard & 1) : insn->guard);
        insn->ps = (uint16_t)(insn->ps >> 1 ? (preds[insn->ps >> 1] + 1) << 1 | (insn->ps & 1) : insn->ps);
        insn->ps2 = (uint16_t)(insn->ps2 >> 1 ? (preds[insn->ps2 >> 1] + 1) << 1 | (insn->ps2 & 1) : insn->ps2);
        insn->pd = (uint16_t)(insn->pd ? preds[insn->pd] + 1 : 0);
        insn->pd2 = (uint16_t)(insn->pd2 ? preds[insn->pd2] + 1 : 0);
    }
}

/* Most 32-bit units that are live at one instruction. */
static int find_pressure(const struct analysis *a, uint32_t *pressure)
{
    int32_t *change = calloc((size_t)a->input->count + 3, sizeof(*change));
    int32_t now = 0, most = 0;
    if (!change)
        return -ENOMEM;
    for (uint32_t reg = 0; reg < a->input->r32 + a->input->r64; reg++) {
        int32_t weight = reg < a->input->r32 ? 1 : 2;
        if (a->start[reg] != NONE) {
            change[a->start[reg]] += weight;
            change[a->end[reg] + 1] -= weight;
        }
    }
    for (uint32_t i = 0; i <= a->input->count; i++) {
        now += change[i];
        most = now > most ? now : most;
    }
    free(change);
    *pressure = (uint32_t)most;
    return 0;
}

static int analyse(struct analysis *a)
{
    int error = find_blocks(a);
    if (error)
        return error;
    a->words = a->registers / 64 + 1;
    bool solved = (uint64_t)a->block_count * a->words * 16 <= SET_BYTES_MAX;
    a->start = calloc((size_t)a->registers + 1, sizeof(uint32_t));
    a->end = calloc((size_t)a->registers + 1, sizeof(uint32_t));
    if (!a->start || !a->end)
        return -ENOMEM;
    if (solved) {
        a->in = calloc((size_t)a->block_count * a->words, sizeof(uint64_t));
        a->out = calloc((size_t)a->block_count * a->words, sizeof(uint64_t));
        if (!a->in || !a->out)
            return -ENOMEM;
        error = solve(a);
        if (error)
            return error;
    }
    find_hulls(a, solved);
    return 0;
}

int alloc_registers(struct function *function, const struct alloc_input *input)
{
    struct analysis a = {.input = input, .registers = input->r32 + input->r64 + input->preds};
    uint32_t *row = calloc((size_t)a.registers + 1, sizeof(uint32_t));
    int error = row ? analyse(&a) : -ENOMEM;
    if (!error)
        error = scan_pool(&a, 0, input->r32, row, &function->n32);
    if (!error)
        error = scan_pool(&a, input->r32, input->r64, row + input->r32, &function->n64);
    if (!error)
        error = scan_pool(&a, input->r32 + input->r64, input->preds, row + input->r32 + input->r64, &function->npred);
    if (!error)
        error = find_pressure(&a, &function->pressure);
    if (!error) {
        function->npred++; /* "true" */
        rewrite(&a, row);
    }
    free(row);
    free(a.blocks);
    free(a.block_of);
    free(a.in);
    free(a.out);
    free(a.start);
    free(a.end);
    return error;
}
