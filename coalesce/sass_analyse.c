/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel reads of its launch, which uniform registers it leaves alone, and why it cannot be rewritten.
 */
#include "coalesce/sass.h"

#include <errno.h>
#include <string.h>

/* The words of bank 0 that the driver fills. */
struct sass_word_rule {
    uint32_t start, end;
    enum { SAME, COUNTS, REFUSED } rule;
    enum coalesce_refusal refusal;
};

/* What ptxas 13.0 makes of special registers in PTX, here and for sm_90. */
static const struct sass_word_rule words_80[] = {
    {0x00, 0x0c, SAME, 0},                        /* blockDim */
    {0x18, 0x30, SAME, 0},                        /* windows, stack, size of dynamic shared memory */
    {0x30, 0x38, REFUSED, COALESCE_SPECIAL},      /* %gridid */
    {0x88, 0x108, REFUSED, COALESCE_COOPERATIVE}, /* %envreg */
    {0x10c, 0x110, SAME, 0},                      /* %nsmid */
    {0x114, 0x118, SAME, 0},                      /* shared memory, reserved part */
    {0x118, 0x120, SAME, 0},                      /* memory descriptor */
    {0x120, 0x124, SAME, 0},                      /* end of the reserved part of shared memory */
};

static const struct sass_word_rule words_90[] = {
    {0x00, 0x0c, SAME, 0},                       /* blockDim */
    {0x20, 0x30, SAME, 0},                       /* windows, stack, size of dynamic shared memory */
    {0x30, 0x38, REFUSED, COALESCE_SPECIAL},     /* %gridid */
    {0x40, 0xc0, REFUSED, COALESCE_COOPERATIVE}, /* %envreg: 1 and 2 are the barrier of a cooperative grid */
    {0x10c, 0x110, SAME, 0},                     /* %nsmid */
    {0x114, 0x118, SAME, 0},                     /* shared memory, reserved part */
    {0x13c, 0x15c, SAME, 0},                     /* %aggr_smem_size, is it a cluster, its size and inverse size */
    {0x15c, 0x164, COUNTS, 0},                   /* %nclusterid.x, y */
    {0x164, 0x168, REFUSED, COALESCE_SPECIAL},   /* %nclusterid.z */
    {0x188, 0x18c, SAME, 0},                     /* %cluster_nctarank */
    {0x208, 0x210, SAME, 0},                     /* memory descriptor */
};

/*
 * Bank 0 of sm_90: 0x198 and 0xc were read back on an H200. sm_80 and its relatives: read off ptxas 13.0 output, the
 * same for all three; the form of the handle is Mesa's (nvk_descriptor_types.h). Nothing of them ran.
 */
#define FAMILY_80                                                                                                      \
    .parameter_base = 0x160, .bank_address = 0x40, .grid = 0xc, .rules = words_80,                                     \
    .rule_count = sizeof(words_80) / sizeof(words_80[0]), .handle_shift = 4, .size_shift = 13, .alu = true,            \
    .z_record = true

static const struct sass_target targets[] = {
    {.sm = 80, FAMILY_80},
    {.sm = 86, FAMILY_80},
    {.sm = 89, FAMILY_80},
    {.sm = 90,
     .proven = true,
     .parameter_base = 0x210,
     .parameter_address = 0x198,
     .bank_address = 0xc0,
     .grid = 0xc,
     .rules = words_90,
     .rule_count = sizeof(words_90) / sizeof(words_90[0]),
     .handle_shift = 6,
     .size_shift = 19,
     .split_branch = true,
     .clusters = true},
};

const struct sass_target *sass_target(unsigned sm)
{
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
        if (targets[i].sm == sm)
            return &targets[i];
    return NULL;
}

struct sass_word sass_word_at(const unsigned char *code, uint64_t offset)
{
    return (struct sass_word){cubin_get64(code + offset), cubin_get64(code + offset + 8)};
}

static const struct sass_word_rule *rule_of(const struct sass_target *target, uint32_t start, uint32_t end)
{
    for (size_t i = 0; i < target->rule_count; i++)
        if (start >= target->rules[i].start && end <= target->rules[i].end)
            return &target->rules[i];
    return NULL;
}

enum sass_read sass_classify(const struct sass_facts *facts, const struct sass_instruction *instruction)
{
    const struct sass_target *target = facts->target;
    uint32_t offset = instruction->offset;

    if (!instruction->constant || instruction->bank != SASS_BANK_PARAMETERS)
        return SASS_READ_KEEP;
    if (offset >= target->parameter_base)
        return SASS_READ_PARAMETER;
    if (offset >= target->grid && offset < target->grid + 12)
        return SASS_READ_GRID;
    if (target->parameter_address && offset >= target->parameter_address && offset < target->parameter_address + 8)
        return SASS_READ_ADDRESS;
    if (offset >= target->bank_address && offset < target->bank_address + 8)
        return SASS_READ_BANK_ADDRESS;
    return SASS_READ_KEEP;
}

static int refuse(enum coalesce_refusal *refusal, enum coalesce_refusal why)
{
    *refusal = why;
    return -ENOTSUP;
}

static int look_at_driver_word(struct sass_facts *facts, const struct sass_instruction *instruction,
                               enum coalesce_refusal *refusal)
{
    const struct sass_word_rule *rule =
        rule_of(facts->target, instruction->offset, instruction->offset + instruction->bytes);

    if (!rule)
        return refuse(refusal, COALESCE_SPECIAL);
    if (rule->rule == REFUSED)
        return refuse(refusal, rule->refusal);
    facts->reads_count = facts->reads_count || rule->rule == COUNTS;
    return 0;
}

/*
 * Of the parameters, or of bank 0: kernels of cuBLASLt (nvjet) add to the latter what they would read at, to get at
 * tensor maps among their parameters. What a kernel reads there below its parameters cannot be seen here; none was
 * found that does.
 */
static int look_at_address(bool *reads, const struct sass_instruction *instruction, enum coalesce_refusal *refusal)
{
    if (instruction->kind == SASS_ALU || (instruction->bytes != 8 && instruction->bytes != 4) ||
        instruction->offset % instruction->bytes)
        return refuse(refusal, COALESCE_OPERAND);
    *reads = true;
    return 0;
}

static int look_at_bank0(struct sass_facts *facts, const struct sass_instruction *instruction, struct sass_word word,
                         enum coalesce_refusal *refusal)
{
    const struct sass_target *target = facts->target;
    enum sass_read read = sass_classify(facts, instruction);

    /* Code without optimisation reads everything this way, so that a parameter cannot be told from a driver word. */
    if (instruction->indexed && instruction->offset < target->parameter_base)
        return refuse(refusal, COALESCE_DEBUG);
    if (read == SASS_READ_KEEP)
        return look_at_driver_word(facts, instruction, refusal);
    /* Bits 79:78 of LDC say how index and offset are added; only plain addition has a form for cx. */
    if (instruction->kind == SASS_LDC && (word.hi >> 14 & 3))
        return refuse(refusal, COALESCE_OPERAND);
    if (instruction->kind == SASS_ALU && target->alu && !sass_has_twin(instruction->opcode))
        return refuse(refusal, COALESCE_OPERAND);
    if (read == SASS_READ_ADDRESS)
        return look_at_address(&facts->reads_address, instruction, refusal);
    if (read == SASS_READ_BANK_ADDRESS)
        return look_at_address(&facts->reads_bank_address, instruction, refusal);
    if (read == SASS_READ_GRID) {
        /* The member's gridDim lies so that y and z cannot be read as one. */
        if (instruction->bytes > 4 || instruction->offset + instruction->bytes > target->grid + 12)
            return refuse(refusal, COALESCE_SPECIAL);
        facts->reads_grid = true;
    } else if (instruction->offset >= target->parameter_base + facts->parameter_bytes) {
        return refuse(refusal, COALESCE_OPERAND);
    }
    facts->parameter_reads++;
    facts->reads_alu = facts->reads_alu || instruction->kind == SASS_ALU;
    facts->reads_ldc = facts->reads_ldc || instruction->kind == SASS_LDC;
    facts->reads_parameter_index = facts->reads_parameter_index || instruction->kind == SASS_ULDC_INDEXED;
    return 0;
}

/* A branch ends or lands between two places: then what a register held at the first says nothing of the second. */
static bool flow_between(const struct sass_target *machine, const unsigned char *code, uint64_t size, uint64_t from,
                         uint64_t to)
{
    for (uint64_t at = 0; at < size; at += SASS_WORD) {
        struct sass_word word = sass_word_at(code, at);
        int64_t distance, target;

        if (at > from && at < to && sass_is_control(word.lo & 0xfff))
            return true;
        if (!sass_branch(machine, word, &distance))
            continue;
        target = (int64_t)at + SASS_WORD + distance;
        if (target > (int64_t)from && target <= (int64_t)to)
            return true;
    }
    return false;
}

/*
 * The index of a read, if it was just set to a number: that is how ptxas 13.0 reads the address of __assertfail. MOV,
 * IMAD.MOV.U32 and HFMA2.MMA with a number that is zero are the ways in which it sets one.
 */
static bool index_is_known(const struct sass_target *machine, const struct cubin_section *section, uint64_t at,
                           unsigned index, uint32_t *value)
{
    enum { LOOK_BACK = 32, MOV = 0x802, IMAD = 0x424, HFMA2 = 0x435, ALWAYS = 7 };

    for (uint64_t back = 1; back <= LOOK_BACK && back * SASS_WORD <= at; back++) {
        uint64_t from = at - back * SASS_WORD;
        struct sass_word word = sass_word_at(section->data, from);
        unsigned opcode = word.lo & 0xfff, a = word.lo >> 24 & 0xff, c = word.hi & 0xff;
        bool zeroes = a == SASS_RZ && c == SASS_RZ;

        /* A pair is written under its first register, four of them too. */
        if ((word.lo >> 16 & 0xff) > index || (word.lo >> 16 & 0xff) + 3 < index)
            continue;
        *value = (uint32_t)(word.lo >> 32);
        return (word.lo >> 16 & 0xff) == index && (word.lo >> 12 & 15) == ALWAYS &&
               (opcode == MOV || (opcode == IMAD && zeroes) ||
                (opcode == HFMA2 && a == SASS_RZ && *value == 0 && c == SASS_RZ)) &&
               !flow_between(machine, section->data, section->size, from, at);
    }
    return false;
}

static void note_bank4(struct sass_facts *facts, uint32_t offset, uint32_t bytes)
{
    facts->bank4 = true;
    for (uint32_t at = offset; at < offset + bytes; at++)
        facts->bank4_used[at / 8 % 8192 / 64] |= UINT64_C(1) << (at / 8 % 64);
}

static int look_at_constant(struct sass_facts *facts, const struct sass_instruction *instruction, struct sass_word word,
                            enum coalesce_refusal *refusal)
{
    switch (instruction->bank) {
    case SASS_BANK_PARAMETERS:
        return look_at_bank0(facts, instruction, word, refusal);
    case 2: /* the kernel's own constants, tables of jumps */
        return 0;
    case 3:
        facts->bank3 = true;
        return 0;
    case 4:
        facts->bank4_indexed = facts->bank4_indexed || instruction->indexed;
        note_bank4(facts, instruction->offset, instruction->bytes);
        return 0;
    default:
        return refuse(refusal, COALESCE_INSTRUCTION);
    }
}

/* Special registers that a pack does not change, by number as a disassembler names them for sm_80 and sm_90. */
static bool special_is_same(const struct sass_target *target, int number)
{
    static const uint8_t same[] = {0,   1,   2,   3,                                /* lane, clock, warps */
                                   32,  33,  34,  35,                               /* thread */
                                   37,  38,                                         /* block x, y */
                                   44,  46,  47,  48,  49,  50, 51, 52, 53, 54, 55, /* windows and sizes of memories */
                                   56,  57,  58,  59,  60,                          /* masks of lanes */
                                   61,  62,  67,  80,  81,  82, 83, /* allocation, multiprocessor, clocks */
                                   134, 135, 136, 137, 139,         /* warp group, block in its cluster */
                                   255};

    return memchr(same, number, sizeof(same)) != NULL && (target->clusters || number < 134 || number == SASS_SRZ);
}

static int look_at_special(struct sass_facts *facts, const struct sass_instruction *instruction,
                           enum coalesce_refusal *refusal)
{
    bool wide = instruction->kind == SASS_CS2R;

    if (instruction->special == SASS_SR_CTAID_Z && !wide) {
        facts->reads_ctaid_z = true;
        return 0;
    }
    if (!special_is_same(facts->target, instruction->special) ||
        (wide && instruction->special != SASS_SRZ && !special_is_same(facts->target, instruction->special + 1)))
        return refuse(refusal, COALESCE_SPECIAL);
    return 0;
}

static int look_at_word(struct sass_facts *facts, const struct cubin_section *code, uint64_t offset,
                        enum coalesce_refusal *refusal)
{
    struct sass_word word = sass_word_at(code->data, offset);
    struct sass_instruction instruction = sass_decode(word);
    int64_t distance;
    uint32_t index;

    if (instruction.kind == SASS_UNKNOWN)
        return refuse(refusal, COALESCE_INSTRUCTION);
    facts->uniform_written |= instruction.writes;
    if (instruction.opcode == 0x9c8) /* USETMAXREG */
        facts->setmaxreg = true;
    if (instruction.opcode == 0x9c7 || instruction.opcode == 0xdc7) /* UCGABAR */
        facts->clusters = true;
    /* Back to the first word, which moves: the prologue would run again, in the middle of things. */
    if (sass_branch(facts->target, word, &distance) && (int64_t)offset + SASS_WORD + distance == 0)
        return refuse(refusal, COALESCE_ENTRY);
    if (instruction.special >= 0)
        return look_at_special(facts, &instruction, refusal);
    /* Constants that a handle of the kernel's own leads to: nobody is known to do that. */
    if (instruction.opcode == 0x582 || (instruction.opcode == 0xab9 && instruction.bit91))
        return refuse(refusal, COALESCE_INSTRUCTION);
    if (!instruction.constant)
        return 0;
    if (instruction.bank == 4 && instruction.kind == SASS_LDC && instruction.indexed &&
        index_is_known(facts->target, code, offset, word.lo >> 24 & 0xff, &index)) {
        note_bank4(facts, instruction.offset + index, instruction.bytes);
        return 0;
    }
    if (instruction.bank == SASS_BANK_PARAMETERS && instruction.bytes == 0)
        return refuse(refusal, COALESCE_INSTRUCTION);
    return look_at_constant(facts, &instruction, word, refusal);
}

/* Operands c[bank][offset] of control flow (CALL.ABS, JMP, WARPSYNC, ...) have no entry in the table: refused there. */
int sass_analyse_code(struct sass_facts *facts, uint32_t section, enum coalesce_refusal *refusal)
{
    const struct cubin_section *code = &facts->cubin->sections[section];
    int error = 0;

    if (!code->data || code->size < 2 * SASS_WORD) {
        *refusal = COALESCE_IMAGE_BROKEN;
        return -EINVAL;
    }
    for (uint64_t at = 0; at < code->size && error == 0; at += SASS_WORD)
        error = look_at_word(facts, code, at, refusal);
    return error;
}

/*
 * Functions of the driver. What they do to uniform registers is not known, but who calls __assertfail does not go on:
 * it ends the kernel.
 */
static int look_at_externs(const struct sass_facts *facts, const struct cubin_record *record,
                           enum coalesce_refusal *refusal)
{
    for (uint32_t at = 0; at + 4 <= record->size; at += 4) {
        uint32_t symbol = cubin_get32(record->payload + at);

        if (symbol >= facts->cubin->symbol_count || !sass_never_returns(facts->cubin->symbols[symbol].name))
            return refuse(refusal, COALESCE_CALLS_OUT);
    }
    return 0;
}

bool sass_never_returns(const char *function)
{
    return strcmp(function, "__assertfail") == 0;
}

/* Records that tell about the kernel. */
static int look_at_record(struct sass_facts *facts, const struct cubin_record *record, enum coalesce_refusal *refusal)
{
    const unsigned char *payload = record->payload;
    uint32_t end = 0;

    switch (record->attribute) {
    case CUBIN_ATTR_KPARAM:
        if (record->size >= 12)
            end = cubin_get16(payload + 6) + (cubin_get32(payload + 8) >> 18);
        break;
    case CUBIN_ATTR_KPARAM_V2:
        if (record->size >= 12 && cubin_get32(payload + 8) <= UINT16_MAX)
            end = cubin_get16(payload + 6) + cubin_get32(payload + 8);
        break;
    case CUBIN_ATTR_EXTERNS:
        return look_at_externs(facts, record, refusal);
    case CUBIN_ATTR_CNP_WRAPPER:
    case CUBIN_ATTR_CNP_PATCH:
        return refuse(refusal, COALESCE_CHILDREN);
    case CUBIN_ATTR_IMAGE_SLOT:
        return refuse(refusal, COALESCE_TEXTURE);
    case CUBIN_ATTR_CTA_PER_CLUSTER:
        facts->clusters = true;
        if (record->size < 12 || cubin_get32(payload + 8) > 1)
            return refuse(refusal, COALESCE_CLUSTER);
        break;
    case CUBIN_ATTR_EXPLICIT_CLUSTER:
        facts->clusters = true;
        break;
    }
    if (end > facts->parameter_bytes)
        facts->parameter_bytes = end;
    return 0;
}

static int look_at_records(struct sass_facts *facts, enum coalesce_refusal *refusal)
{
    const struct cubin_section *info = &facts->cubin->sections[facts->info];
    struct cubin_record record;
    size_t at = 0;
    int error = 0;

    while (error == 0 && cubin_next_record(info, &at, &record))
        error = look_at_record(facts, &record, refusal);
    return error;
}

static void look_at_register_count(struct sass_facts *facts)
{
    struct cubin_record record;

    for (uint32_t i = 1; i < facts->cubin->section_count; i++) {
        const struct cubin_section *section = &facts->cubin->sections[i];
        size_t at = 0;

        if (section->type != CUBIN_INFO || section->info != 0)
            continue;
        while (cubin_next_record(section, &at, &record))
            if (record.attribute == CUBIN_ATTR_REGCOUNT && record.size >= 8 &&
                cubin_get32(record.payload) == facts->symbol)
                facts->registers = cubin_get32(record.payload + 4);
    }
}

static void find_sections(struct sass_facts *facts)
{
    for (uint32_t i = 1; i < facts->cubin->section_count; i++) {
        const struct cubin_section *section = &facts->cubin->sections[i];

        if (section->info != facts->section || i == facts->cubin->symbol_table)
            continue;
        if (section->type == CUBIN_INFO)
            facts->info = i;
        else if (section->type == CUBIN_PROGBITS && strncmp(section->name, ".nv.constant0", 13) == 0)
            facts->constant0 = i;
    }
}

int sass_analyse(const struct cubin *cubin, const char *name, struct sass_facts *facts, enum coalesce_refusal *refusal)
{
    int error;

    *facts = (struct sass_facts){.target = sass_target(cubin->sm), .cubin = cubin, .name = name};
    if (!facts->target)
        return refuse(refusal, COALESCE_ARCHITECTURE);
    facts->section = cubin_find_kernel(cubin, name, &facts->symbol);
    if (!facts->section)
        return refuse(refusal, COALESCE_NO_KERNEL);
    facts->old_abi = cubin->sections[facts->section].info >> 24 != 0;
    find_sections(facts);
    if (!facts->info || !facts->constant0) {
        *refusal = COALESCE_IMAGE_BROKEN;
        return -EINVAL;
    }
    look_at_register_count(facts);
    error = look_at_records(facts, refusal);
    if (error == 0 && facts->parameter_bytes == 0) /* nothing tells two of its launches apart */
        error = refuse(refusal, COALESCE_PARAMETERS);
    if (error == 0)
        error = sass_analyse_code(facts, facts->section, refusal);
    return error;
}
