/* SPDX-License-Identifier: Apache-2.0
 *
 * The new code of a kernel: old words in their old places, some of them changed, then the prologue, then detours for
 * reads that need an extra instruction, then padding.
 *
 * Stalls. No table of latencies for sm_90 is public; the one for Ampere (Mesa, URegLatencySM80) asks for 12 cycles from
 * uniform arithmetic to a constant read. All words here wait that long, the last 15; the prologue ran with these on an
 * H200. A word that replaces one that a scoreboard was set for takes fixed time instead; who waits for the scoreboard
 * finds it clear.
 */
#include "coalesce/sass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    STALL = 12,
    STALL_LAST = 15,
    STALL_REGISTER = 8, /* result in an ordinary register */
    STALL_PREDICATE = 13,
    PAD = 8, /* words: 128 bytes, as ptxas pads */
    UR_COUNT = 63,
    REGISTERS_MAX = 255,
};

/* ---- registers ---- */

static bool take(uint64_t *used, unsigned number, unsigned count)
{
    uint64_t bits = ((UINT64_C(1) << count) - 1) << number;

    if (number + count > UR_COUNT || (*used & bits))
        return false;
    *used |= bits;
    return true;
}

static bool take_pair(uint64_t *used, uint8_t *pair)
{
    for (int number = UR_COUNT - 3; number >= 0; number -= 2)
        if (take(used, (unsigned)number, 2)) {
            *pair = (uint8_t)number;
            return true;
        }
    return false;
}

/* First what is of no use as a pair. UR62 has no partner. UR0 is left out: 0 says that there is none. */
static bool take_one(uint64_t *used, uint8_t *one)
{
    for (int alone = 1; alone >= 0; alone--)
        for (int number = UR_COUNT - 1; number > 0; number--) {
            bool partner_used = number == UR_COUNT - 1 || (*used >> (number ^ 1) & 1);

            if ((!alone || partner_used) && take(used, (unsigned)number, 1)) {
                *one = (uint8_t)number;
                return true;
            }
        }
    return false;
}

/* All uniform registers are dead at entry, so the prologue may use any that does not hold a result of its own. */
static void choose_scratch(struct sass_registers *registers, uint64_t results)
{
    for (unsigned number = 4; number + 4 <= UR_COUNT; number += 4)
        if (!(results >> number & 15)) {
            registers->scratch = (uint8_t)number;
            registers->scratch_pair = (uint8_t)(number + 2);
            return;
        }
}

static bool choose(const struct sass_facts *facts, unsigned form, struct sass_registers *registers)
{
    uint64_t used = facts->uniform_written;
    bool fine;

    fine = registers->indexed || take_pair(&used, &registers->handle);
    if (facts->reads_address)
        fine = fine && take_pair(&used, &registers->address);
    if (facts->reads_bank_address)
        fine = fine && take_pair(&used, &registers->bank_address);
    if ((form & COALESCE_FOLD) && facts->reads_ctaid_z)
        fine = fine && take_one(&used, &registers->z);
    if (registers->indexed || facts->reads_parameter_index)
        fine = fine && take_one(&used, &registers->place);
    choose_scratch(registers, used & ~facts->uniform_written);
    return fine;
}

int sass_choose_registers(const struct sass_facts *facts, unsigned form, struct sass_registers *registers,
                          enum coalesce_refusal *refusal)
{
    bool fine;

    *registers = (struct sass_registers){0};
    if (choose(facts, form, registers))
        return 0;
    *registers = (struct sass_registers){.indexed = true};
    fine = !facts->reads_alu && !facts->reads_address && !facts->reads_bank_address && choose(facts, form, registers);
    if (fine && facts->reads_ldc) {
        /* ptxas counts the highest register, plus 1, plus 2: the first of these two is free. */
        fine = !facts->setmaxreg && !facts->old_abi && facts->registers > 2 && facts->registers < REGISTERS_MAX;
        registers->place_register = fine ? (uint8_t)(facts->registers - 2) : 0;
    }
    if (fine)
        return 0;
    *refusal = COALESCE_NO_REGISTER;
    return -ENOTSUP;
}

/* ---- prologue ---- */

struct writer {
    struct sass_word *words;
    unsigned count;
};

static void put(struct writer *writer, struct sass_word word, struct sass_control control)
{
    writer->words[writer->count++] = sass_with_control(word, control);
}

/* Where cx has the member's gridDim. */
static uint32_t header_in_cx(const struct sass_facts *facts)
{
    return facts->target->parameter_base - COALESCE_MEMBER_HEADER;
}

static const struct sass_control plain = {.stall = STALL};
static const struct sass_control after_first = {.stall = STALL, .wait = 1};

/*
 * z / gz by multiplying (coalesce.h says why that is exact), z % gz from it. Leaves the member in `scratch`.
 */
static void put_fold(struct writer *writer, const struct sass_facts *facts, const struct sass_registers *registers)
{
    unsigned z = registers->scratch, pair = registers->scratch_pair;

    put(writer, sass_uldc(pair, facts->target->parameter_base, false), plain);
    put(writer, sass_uimad_wide(pair, z, pair, SASS_URZ), after_first);
    if (facts->reads_ctaid_z) {
        put(writer, sass_uldc(pair, facts->target->parameter_base + 4, false), plain);
        put(writer, sass_uimad(registers->z, pair + 1, pair, z), plain);
    }
    put(writer, sass_umov(z, pair + 1), plain);
}

/*
 * Where bank 0 would have to be for this member: `pair` and, if the kernel reads it, `bank_address`. Since Hopper the
 * former is rounded down to 64 by its shift: then it is bank 0, plus place plus base, because parameters begin 0x210
 * behind the start of bank 0 and base is 0x200. Before, code asks for the address of bank 0 only, and so does this.
 */
static void put_bank_address(struct writer *writer, const struct sass_facts *facts,
                             const struct sass_registers *registers, const struct coalesce_layout *layout)
{
    unsigned pair = registers->scratch_pair;

    if (facts->target->parameter_address) {
        if (!facts->reads_bank_address)
            return;
        /* No borrow: the low six bits are those of 0x210. */
        put(writer,
            sass_uiadd_imm(registers->bank_address, -(layout->base % 64 + facts->target->parameter_base % 64), pair),
            plain);
    } else {
        put(writer, sass_uiadd_imm(pair, layout->base, pair), plain);
        put(writer, sass_uiadd_carry(pair + 1, pair + 1), plain);
        if (!facts->reads_bank_address)
            return;
        put(writer, sass_umov(registers->bank_address, pair), plain);
    }
    put(writer, sass_umov(registers->bank_address + 1, pair + 1), plain);
}

/*
 * The handle of cx, since Hopper: bits 50:0 address / 64, above them size / 16 (Mesa nvk_descriptor_types.h; ran on an
 * H200). Before: bits 44:0 address / 16 (same source).
 */
static void put_handle(struct writer *writer, const struct sass_facts *facts, const struct sass_registers *registers,
                       const struct coalesce_layout *layout, struct sass_control first)
{
    unsigned member = registers->scratch, pair = registers->scratch_pair;
    const struct sass_target *target = facts->target;
    uint32_t size = (target->parameter_base + layout->parameter_bytes + 15) / 16;

    put(writer, sass_uldc(pair, target->parameter_address ? target->parameter_address : target->bank_address, true),
        (struct sass_control){.stall = 6});
    if (registers->place)
        put(writer, sass_uimad_imm(registers->place, member, layout->stride), first);
    put(writer, sass_uimad_wide_imm(pair, member, layout->stride, pair), registers->place ? plain : first);
    if (facts->reads_address) {
        put(writer, sass_uiadd_imm(registers->address, layout->base, pair), plain);
        put(writer, sass_uiadd_carry(registers->address + 1, pair + 1), plain);
    }
    put_bank_address(writer, facts, registers, layout);
    put(writer, sass_shift_pair(registers->handle, pair, pair + 1, target->handle_shift), plain);
    put(writer, sass_shift(pair + 1, pair + 1, target->handle_shift), plain);
    put(writer, sass_uor_imm(registers->handle + 1, pair + 1, size << target->size_shift),
        (struct sass_control){.stall = STALL_LAST});
}

static void put_place(struct writer *writer, const struct sass_registers *registers,
                      const struct coalesce_layout *layout, struct sass_control first)
{
    first.stall = STALL_LAST;
    put(writer, sass_uimad_imm(registers->place, registers->scratch, layout->stride), first);
    if (registers->place_register)
        put(writer, sass_mov(registers->place_register, registers->place), (struct sass_control){.stall = 6});
}

/*
 * Blocks outside the member's own grid end. R0 and P0 are free: nothing but the hardware came before, and the word that
 * sets R1 comes after.
 */
static void put_bounds(struct writer *writer, const struct sass_facts *facts, const struct sass_registers *registers,
                       const struct coalesce_layout *layout)
{
    uint32_t header = facts->target->parameter_base + layout->base - COALESCE_MEMBER_HEADER;

    for (unsigned axis = 0; axis < 2; axis++) {
        struct sass_word bound =
            registers->indexed ? sass_uldc_indexed(registers->scratch, registers->place, header + 4 * axis)
                               : sass_uldc_cx(registers->scratch, registers->handle, header_in_cx(facts) + 4 * axis);

        put(writer, sass_s2r(0, SASS_SR_CTAID_X + axis), (struct sass_control){.stall = 2, .write = 1});
        put(writer, bound, plain);
        put(writer, sass_compare_ge(0, registers->scratch), (struct sass_control){.stall = STALL_PREDICATE, .wait = 1});
        writer->words[writer->count++] = sass_exit_if_p0();
    }
}

unsigned sass_prologue(const struct sass_facts *facts, const struct sass_registers *registers,
                       const struct coalesce_layout *layout, struct sass_word *words)
{
    struct writer writer = {.words = words};
    struct sass_control first = after_first;

    put(&writer, sass_s2ur(registers->scratch, SASS_SR_CTAID_Z), (struct sass_control){.stall = 2, .write = 1});
    if (layout->form & COALESCE_FOLD) {
        put_fold(&writer, facts, registers);
        first = plain;
    }
    if (registers->indexed)
        put_place(&writer, registers, layout, first);
    else
        put_handle(&writer, facts, registers, layout, first);
    if (layout->form & COALESCE_RAGGED)
        put_bounds(&writer, facts, registers, layout);
    return writer.count;
}

/* ---- words ---- */

/* How one word is rewritten: it becomes `with`, or a branch to a detour that does `before`, then `with`. */
struct change {
    bool changes, detour;
    struct sass_word before, with;
};

struct rewriting {
    const struct sass_facts *facts;
    const struct sass_registers *registers;
    const struct coalesce_layout *layout;
};

/* A word with fixed latency in place of one that sets a scoreboard. */
static struct sass_word in_place_of(struct sass_word old, struct sass_word word, unsigned stall)
{
    if (sass_stall(old) > stall)
        stall = sass_stall(old);
    word = sass_with_control(word, (struct sass_control){.stall = (uint8_t)stall, .wait = sass_wait_mask(old)});
    return sass_with_guard(word, old);
}

static struct change change_special(const struct rewriting *rewriting, struct sass_word old,
                                    const struct sass_instruction *instruction)
{
    bool fold = (rewriting->layout->form & COALESCE_FOLD) != 0;
    unsigned d = old.lo >> 16 & 0xff, z = rewriting->registers->z;
    struct sass_word word;

    if (instruction->kind == SASS_S2UR)
        word = in_place_of(old, fold ? sass_umov(d & 63, z) : sass_umov_imm(d & 63, 0), STALL);
    else
        word = in_place_of(old, fold ? sass_mov(d, z) : sass_mov_imm(d, 0), STALL_REGISTER);
    return (struct change){.changes = true, .with = word};
}

static struct change change_address(const struct rewriting *rewriting, struct sass_word old,
                                    const struct sass_instruction *instruction, bool bank)
{
    const struct sass_target *target = rewriting->facts->target;
    bool uniform = instruction->kind != SASS_LDC, wide = instruction->bytes == 8;
    unsigned d = old.lo >> 16 & (uniform ? 63 : 0xff), from;
    struct sass_word word;

    from = bank ? rewriting->registers->bank_address : rewriting->registers->address;
    from += (instruction->offset - (bank ? target->bank_address : target->parameter_address)) / 4;
    if (uniform)
        word = wide ? sass_uimad_wide_imm(d, SASS_URZ, 0, from) : sass_umov(d, from);
    else
        word = wide ? sass_wide_from_uniform(d, from) : sass_mov(d, from);
    return (struct change){.changes = true, .with = in_place_of(old, word, uniform ? STALL : STALL_REGISTER)};
}

/*
 * The index of a read is in its own registers: the member's place is added to it in the register that the read is about
 * to overwrite, so no other is needed. The addition takes over the waiting.
 */
static struct change change_indexed(const struct rewriting *rewriting, struct sass_word old,
                                    const struct sass_instruction *instruction)
{
    const struct sass_registers *registers = rewriting->registers;
    bool uniform = instruction->kind == SASS_ULDC_INDEXED;
    unsigned d = old.lo >> 16 & (uniform ? 63 : 0xff), index = old.lo >> 24 & (uniform ? 63 : 0xff);
    struct change change = {.changes = true, .detour = true};

    change.before = uniform ? sass_uiadd(d, index, registers->place) : sass_iadd(d, index, registers->place_register);
    change.before = in_place_of(old, change.before, STALL);
    change.with = sass_to_indexed(old, instruction->kind, d, instruction->offset + rewriting->layout->base);
    return change;
}

static struct change change_parameter(const struct rewriting *rewriting, struct sass_word old,
                                      const struct sass_instruction *instruction, uint32_t offset)
{
    const struct sass_registers *registers = rewriting->registers;
    struct change change = {.changes = true};

    if (instruction->kind == SASS_ULDC_INDEXED || (registers->indexed && instruction->indexed))
        return change_indexed(rewriting, old, instruction);
    if (registers->indexed)
        change.with = sass_to_indexed(old, instruction->kind,
                                      instruction->kind == SASS_LDC ? registers->place_register : registers->place,
                                      offset + rewriting->layout->base);
    else
        change.with = sass_to_cx(old, instruction->kind, registers->handle, offset);
    return change;
}

static struct change change_of(const struct rewriting *rewriting, struct sass_word old)
{
    struct sass_instruction instruction = sass_decode(old);

    if (instruction.special == SASS_SR_CTAID_Z)
        return change_special(rewriting, old, &instruction);
    switch (sass_classify(rewriting->facts, &instruction)) {
    case SASS_READ_PARAMETER:
        return change_parameter(rewriting, old, &instruction, instruction.offset);
    case SASS_READ_GRID:
        return change_parameter(rewriting, old, &instruction,
                                instruction.offset - rewriting->facts->target->grid + header_in_cx(rewriting->facts));
    case SASS_READ_ADDRESS:
        return change_address(rewriting, old, &instruction, false);
    case SASS_READ_BANK_ADDRESS:
        return change_address(rewriting, old, &instruction, true);
    default:
        return (struct change){.with = old};
    }
}

/* ---- code ---- */

static void put_word(struct sass_code *code, struct sass_word word)
{
    cubin_put64(code->bytes + code->size, word.lo);
    cubin_put64(code->bytes + code->size + 8, word.hi);
    code->size += SASS_WORD;
}

static void put_word_at(struct sass_code *code, size_t offset, struct sass_word word)
{
    cubin_put64(code->bytes + offset, word.lo);
    cubin_put64(code->bytes + offset + 8, word.hi);
    code->changed_at[offset / SASS_WORD] = true;
    code->changed++;
}

static void put_detour(const struct sass_target *target, struct sass_code *code, size_t offset,
                       const struct change *change)
{
    put_word_at(code, offset, sass_bra(target, offset, code->size));
    put_word(code, change->before);
    put_word(code, change->with);
    put_word(code, sass_bra(target, code->size, offset + SASS_WORD));
    code->changed += 3;
}

/* The first word becomes a branch to the prologue, which does what it did at its end. */
static int put_entry(const struct rewriting *rewriting, struct sass_word first, struct sass_code *code,
                     enum coalesce_refusal *refusal)
{
    const struct sass_target *target = rewriting->facts->target;
    struct sass_instruction instruction = sass_decode(first);
    struct change change = change_of(rewriting, first);
    struct sass_word words[SASS_PROLOGUE_MAX];
    size_t start = code->size;
    unsigned count;

    if (sass_is_control(instruction.opcode) || change.detour) {
        *refusal = COALESCE_ENTRY;
        return -ENOTSUP;
    }
    count = sass_prologue(rewriting->facts, rewriting->registers, rewriting->layout, words);
    for (unsigned i = 0; i < count; i++)
        put_word(code, words[i]);
    put_word(code, change.with);
    put_word(code, sass_bra(target, code->size, SASS_WORD));
    put_word_at(code, 0, sass_bra(target, 0, start));
    code->changed += count + 2;
    return 0;
}

static int make_room(const struct rewriting *rewriting, const struct cubin_section *section, struct sass_code *code)
{
    size_t words = (size_t)section->size / SASS_WORD, detours = 0;

    for (size_t i = 0; i < words; i++)
        detours += change_of(rewriting, sass_word_at(section->data, i * SASS_WORD)).detour;
    code->bytes = malloc((words + 3 * detours + SASS_PROLOGUE_MAX + PAD) * SASS_WORD);
    code->changed_at = calloc(words, sizeof(*code->changed_at));
    if (!code->bytes || !code->changed_at)
        return -ENOMEM;
    memcpy(code->bytes, section->data, (size_t)section->size);
    code->size = (size_t)section->size;
    return 0;
}

static int rewrite_words(const struct rewriting *rewriting, const struct cubin_section *section, bool entry,
                         struct sass_code *code, enum coalesce_refusal *refusal)
{
    int error = 0;

    if (entry)
        error = put_entry(rewriting, sass_word_at(section->data, 0), code, refusal);
    for (uint64_t at = entry ? SASS_WORD : 0; at < section->size && error == 0; at += SASS_WORD) {
        struct change change = change_of(rewriting, sass_word_at(section->data, at));

        if (change.detour)
            put_detour(rewriting->facts->target, code, (size_t)at, &change);
        else if (change.changes)
            put_word_at(code, (size_t)at, change.with);
    }
    while (error == 0 && code->size / SASS_WORD % PAD)
        put_word(code, sass_nop());
    return error;
}

int sass_rewrite_code(const struct sass_facts *facts, uint32_t section, const struct sass_registers *registers,
                      const struct coalesce_layout *layout, struct sass_code *code, enum coalesce_refusal *refusal)
{
    struct rewriting rewriting = {.facts = facts, .registers = registers, .layout = layout};
    const struct cubin_section *old = &facts->cubin->sections[section];
    int error;

    *code = (struct sass_code){0};
    error = make_room(&rewriting, old, code);
    if (error == 0)
        error = rewrite_words(&rewriting, old, section == facts->section, code, refusal);
    if (error < 0)
        sass_code_finish(code);
    return error;
}

void sass_code_finish(struct sass_code *code)
{
    free(code->bytes);
    free(code->changed_at);
    *code = (struct sass_code){0};
}
