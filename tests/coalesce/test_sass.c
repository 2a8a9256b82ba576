/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine code: single words, the prologue, and whole kernels of sass_kernels.cubin. Words that are spelled out here
 * ran on an H200, or are what ptxas 13.0 writes.
 */
#include "coalesce/sass.h"
#include "tests/coalesce/kernels.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_word(struct sass_word word, uint64_t hi, uint64_t lo)
{
    cr_expect_eq(word.hi, hi, "high half %016llx, not %016llx", (unsigned long long)word.hi, (unsigned long long)hi);
    cr_expect_eq(word.lo, lo, "low half %016llx, not %016llx", (unsigned long long)word.lo, (unsigned long long)lo);
}

static struct sass_word word(uint64_t hi, uint64_t lo)
{
    return (struct sass_word){lo, hi};
}

/* ---- words ---- */

Test(words, ldc_becomes_ldc_cx)
{
    expect_word(sass_to_cx(word(0x000e220000000a00, 0x00008800ff047b82), SASS_LDC, 60, 0x220), 0x000e220008000aff,
                0x000088003c047582);
}

Test(words, ldc_keeps_its_index)
{
    expect_word(sass_to_cx(word(0x000e220000000800, 0x0000860003047b82), SASS_LDC, 60, 0x218), 0x000e220008000803,
                0x000086003c047582);
}

Test(words, uldc_becomes_uldc_cx)
{
    expect_word(sass_to_cx(word(0x000fc80000000800, 0x00008a0000047ab9), SASS_ULDC, 60, 0x228), 0x000fc80008000800,
                0x00008a003c047ab9);
    expect_word(sass_to_cx(word(0x000fc80000000a00, 0x00008a0000047ab9), SASS_ULDC, 60, 0x228), 0x000fc80008000a00,
                0x00008a003c047ab9);
}

Test(words, arithmetic_becomes_cx)
{
    expect_word(sass_to_cx(word(0x001fcc00078e0203, 0x00005a0000007a24), SASS_ALU, 60, 0x168), 0x001fcc000f8e0203,
                0x00005a3c00007a24);
}

Test(words, branches_as_ptxas_writes_them)
{
    int64_t distance = 0;

    expect_word(sass_bra(sass_target(90), 0, 0x200), 0x000fea0003800000, 0x00000000007c7947);
    expect_word(sass_bra(sass_target(90), 0x270, 0x10), 0x000fea000383ffff, 0xfffffffc00647947);
    cr_assert(sass_branch(sass_target(90), sass_bra(sass_target(90), 0x270, 0x10), &distance));
    cr_assert_eq(0x280 + distance, 0x10);
    cr_assert(sass_branch(sass_target(90), sass_bra(sass_target(90), 0x10, 0x123450), &distance));
    cr_assert_eq(0x20 + distance, 0x123450);
    cr_assert(!sass_branch(sass_target(90), sass_nop(), &distance));
}

Test(words, branches_before_sm_90_are_not_split)
{
    const struct sass_target *target = sass_target(80);
    int64_t distance = 0;

    /* "BRA ." as ptxas ends its code for sm_80, but for the stall. */
    expect_word(sass_bra(target, 0x200, 0x200), 0x000fea000383ffff, 0xfffffff000007947);
    cr_assert(sass_branch(target, sass_bra(target, 0x270, 0x10), &distance));
    cr_assert_eq(0x280 + distance, 0x10);
    cr_assert(sass_branch(target, sass_bra(target, 0x10, 0x123450), &distance));
    cr_assert_eq(0x20 + distance, 0x123450);
}

Test(words, arithmetic_with_a_form_for_cx)
{
    /* IMAD, HFMA2.MMA, HMNMX2, I2FP; VIMNMX is newer than what is known. */
    cr_assert(sass_has_twin(0xa24) && sass_has_twin(0x635) && sass_has_twin(0xa40) && sass_has_twin(0xa45));
    cr_assert(!sass_has_twin(0xa48) && !sass_has_twin(0xa35));
}

Test(words, decoder_tells_what_is_read)
{
    struct sass_instruction ldc = sass_decode(word(0x000e220000000a00, 0x00008800ff047b82));
    struct sass_instruction indexed = sass_decode(word(0x000fe40008000800, 0x0000840004047abb));
    struct sass_instruction imad = sass_decode(word(0x001fcc00078e0203, 0x00005a0000007a24));

    cr_assert(ldc.kind == SASS_LDC && ldc.constant && !ldc.indexed && ldc.bank == 0);
    cr_assert(ldc.offset == 0x220 && ldc.bytes == 8 && ldc.writes == 0);
    cr_assert(indexed.kind == SASS_ULDC_INDEXED && indexed.indexed && indexed.offset == 0x210);
    cr_assert_eq(indexed.writes, 3u << 4);
    cr_assert(imad.kind == SASS_ALU && imad.constant && imad.offset == 0x168 && imad.bytes == 4);
    /* The same word with bit 91 reads cx, so nothing of a bank. */
    cr_assert(!sass_decode(word(0x001fcc000f8e0203, 0x00005a3c00007a24)).constant);
}

Test(words, decoder_tells_what_uniform_registers_are_written)
{
    /* UMOV UR9, S2UR UR4, R2UR UR12: bit 91 is clear in all. UISETP reads UR7, EXIT has none. */
    cr_assert_eq(sass_decode(sass_umov_imm(9, 1)).writes, 3u << 8);
    cr_assert_eq(sass_decode(sass_s2ur(4, SASS_SR_CTAID_Z)).writes, 3u << 4);
    cr_assert_eq(sass_decode(word(0x000e0000, 0x000c72ca)).writes, 3u << 12);
    cr_assert_eq(sass_decode(word(0x0bf06070, 0x000000110700788c)).writes, 0u);
    cr_assert_eq(sass_decode(sass_exit_if_p0()).writes, 0u);
    cr_assert_eq(sass_decode(word(0, 0x7fff)).kind, SASS_UNKNOWN);
}

/* ---- prologue ---- */

static unsigned make_prologue(unsigned form, struct sass_registers registers, bool address, struct sass_word *words)
{
    struct sass_facts facts = {.target = sass_target(90), .reads_address = address, .reads_ctaid_z = true};
    struct coalesce_layout layout = {.parameter_bytes = 88, .base = 0x200, .stride = 128, .form = form};

    registers.scratch = 4;
    registers.scratch_pair = 6;
    return sass_prologue(&facts, &registers, &layout, words);
}

Test(prologue, makes_a_handle)
{
    static const uint64_t expected[][2] = {
        {0x000e040000002700, 0x00000000000479c3}, {0x000fcc0000000a00, 0x0000660000067ab9},
        {0x001fd8000f8e0006, 0x00000080040678a5}, {0x000fd80008001207, 0x00000006063c7899},
        {0x000fd80008011607, 0x000000063f077899}, {0x000fde000f8efc3f, 0x01380000073d7892},
    };
    struct sass_word words[SASS_PROLOGUE_MAX];

    cr_assert_eq(make_prologue(0, (struct sass_registers){.handle = 60}, false, words), 6u);
    for (int i = 0; i < 6; i++)
        expect_word(words[i], expected[i][0], expected[i][1]);
}

/* Before Hopper: c[0x0][0x40] + base + place, address / 16 in 45 bits, size / 16 above. */
Test(prologue, makes_a_handle_for_sm_80)
{
    static const uint64_t expected[][2] = {
        {0x000e040000002700, 0x00000000000479c3}, /* S2UR UR4, SR_CTAID.Z */
        {0x000fcc0000000a00, 0x0000100000067ab9}, /* ULDC.64 UR6, c[0x0][0x40] */
        {0x001fd8000f8e0006, 0x00000080040678a5}, /* UIMAD.WIDE.U32 UR6, UR4, 0x80, UR6 */
        {0x000fd8000ff1e03f, 0x0000020006067890}, /* UIADD3 UR6, UP0, UR6, 0x200, URZ */
        {0x000fd800087fe43f, 0x000000073f077290}, /* UIADD3.X UR7, URZ, UR7, URZ, UP0, !UPT */
        {0x000fd80008001207, 0x00000004063c7899}, /* USHF.R.U64 UR60, UR6, 0x4, UR7 */
        {0x000fd80008011607, 0x000000043f077899}, /* USHF.R.U32.HI UR7, URZ, 0x4, UR7 */
        {0x000fde000f8efc3f, 0x00038000073d7892}, /* ULOP3.LUT UR61, UR7, 0x1c << 13, URZ, 0xfc, !UPT */
    };
    struct sass_facts facts = {.target = sass_target(80)};
    struct coalesce_layout layout = {.parameter_bytes = 88, .base = 0x200, .stride = 128};
    struct sass_registers registers = {.handle = 60, .scratch = 4, .scratch_pair = 6};
    struct sass_word words[SASS_PROLOGUE_MAX];

    cr_assert_eq(sass_prologue(&facts, &registers, &layout, words), 8u);
    for (int i = 0; i < 8; i++)
        expect_word(words[i], expected[i][0], expected[i][1]);
    /* The member's gridDim is in front of its parameters in cx too. */
    layout.form = COALESCE_RAGGED;
    cr_assert_eq(sass_prologue(&facts, &registers, &layout, words), 16u);
    cr_assert_eq(words[9].lo, sass_uldc_cx(4, 60, 0x150).lo);
}

Test(prologue, makes_an_address)
{
    struct sass_word words[SASS_PROLOGUE_MAX];

    cr_assert_eq(make_prologue(0, (struct sass_registers){.handle = 60, .address = 58}, true, words), 8u);
    expect_word(words[3], 0x000fd8000ff1e03f, 0x00000200063a7890);
    expect_word(words[4], 0x000fd800087fe43f, 0x000000073f3b7290);
}

Test(prologue, makes_an_index)
{
    struct sass_registers registers = {.indexed = true, .place = 60, .place_register = 12};
    struct sass_word words[SASS_PROLOGUE_MAX];

    cr_assert_eq(make_prologue(0, registers, false, words), 3u);
    expect_word(words[0], 0x000e040000002700, 0x00000000000479c3);
    expect_word(words[1], 0x001fde000f8e023f, 0x00000080043c78a4);
    expect_word(words[2], 0x000fcc0008000f00, 0x0000003c000c7c02);
}

Test(prologue, fits_in_its_room_with_everything)
{
    struct sass_registers registers = {.handle = 60, .address = 58, .z = 62, .place = 57};
    struct sass_word words[SASS_PROLOGUE_MAX];
    unsigned count = make_prologue(COALESCE_FOLD | COALESCE_RAGGED, registers, true, words);

    cr_assert_leq(count, SASS_PROLOGUE_MAX - 2u);
    for (unsigned i = 0; i < count; i++) {
        cr_expect_neq(sass_decode(words[i]).kind, SASS_UNKNOWN, "word %u", i);
        cr_expect(!(words[i].hi >> 45 & 1) || sass_stall(words[i]) <= 11, "word %u: must not stay that long", i);
    }
}

/* ---- registers ---- */

static int choose(uint64_t written, unsigned form, struct sass_facts facts, struct sass_registers *registers)
{
    enum coalesce_refusal refusal = COALESCE_NONE;
    int error;

    facts.uniform_written = written;
    error = sass_choose_registers(&facts, form, registers, &refusal);
    cr_assert(error == 0 || (error == -ENOTSUP && refusal == COALESCE_NO_REGISTER));
    return error;
}

Test(registers, highest_free_pair_is_taken)
{
    struct sass_registers registers;

    cr_assert_eq(choose(0, 0, (struct sass_facts){0}, &registers), 0);
    cr_assert_eq(registers.handle, 60);
    cr_assert_eq(choose(UINT64_C(3) << 60, 0, (struct sass_facts){.reads_address = true}, &registers), 0);
    cr_assert(registers.handle == 58 && registers.address == 56);
}

Test(registers, results_and_scratch_do_not_overlap)
{
    struct sass_facts facts = {.reads_address = true, .reads_ctaid_z = true, .reads_parameter_index = true};
    struct sass_registers r;

    /* Only UR4 to UR9 are left. */
    cr_assert_eq(choose(~UINT64_C(0x3f0), COALESCE_FOLD, facts, &r), 0);
    cr_assert(r.handle == 8 && r.address == 6 && r.z == 5 && r.place == 4);
    cr_assert(r.scratch >= 12 && r.scratch_pair == r.scratch + 2);
}

Test(registers, index_is_used_when_no_pair_is_free)
{
    struct sass_facts facts = {.reads_ldc = true, .registers = 14};
    struct sass_registers registers;

    cr_assert_eq(choose(SASS_AVOID_PAIRS, 0, facts, &registers), 0);
    cr_assert(registers.indexed && registers.place == 62 && registers.place_register == 12);
    facts.registers = 255;
    cr_assert_eq(choose(SASS_AVOID_PAIRS, 0, facts, &registers), -ENOTSUP);
    cr_assert_eq(choose(UINT64_MAX, 0, (struct sass_facts){0}, &registers), -ENOTSUP);
    cr_assert_eq(choose(SASS_AVOID_PAIRS, 0, (struct sass_facts){.reads_address = true}, &registers), -ENOTSUP);
}

/* ---- kernels ---- */

static unsigned char *image;
static size_t image_size;

static void load(void)
{
    image = read_kernels(&image_size);
}

static void unload(void)
{
    free(image);
}

TestSuite(kernels, .init = load, .fini = unload);

static uint64_t address_of(void *context, const char *symbol)
{
    return strcmp(symbol, "counter") == 0 ? *(uint64_t *)context : 0;
}

static uint64_t counter_at = 0x7f1234567890;

static int rewrite(const char *kernel, uint32_t members, unsigned form, enum cubin_build build,
                   struct coalesce_output *output, enum coalesce_refusal *refusal)
{
    struct coalesce_source source = {.code = COALESCE_CUBIN,
                                     .bytes = image,
                                     .size = image_size,
                                     .kernel = kernel,
                                     .address = address_of,
                                     .context = &counter_at};

    return sass_rewrite_with(&source, 90, members, form, build, output, refusal);
}

static const char *const kernels[] = {"plain", "grid",   "indexed", "uniform_index", "address",
                                      "z",     "shared", "jumps",   "variable",      "constant"};

/* Opens what was made and looks at the kernel's records. */
static void check_output(const struct coalesce_output *output, const char *kernel, bool alone)
{
    enum coalesce_refusal refusal;
    uint32_t symbol = 0, section, texts = 0;
    struct cubin cubin;

    cr_assert_eq(cubin_open(&cubin, output->image, output->size, &refusal), 0, "%s", kernel);
    section = cubin_find_kernel(&cubin, kernel, &symbol);
    cr_assert(section);
    cr_assert_eq(cubin.symbols[symbol].size, cubin.sections[section].size);
    for (uint32_t i = 1; i < cubin.section_count; i++) {
        const struct cubin_section *found = &cubin.sections[i];
        struct cubin_record record;
        size_t at = 0, parameters = 0;

        texts += (found->flags & CUBIN_EXECUTE) != 0;
        if (found->type == CUBIN_PROGBITS && found->info == section && strncmp(found->name, ".nv.constant0", 13) == 0)
            cr_assert_eq(found->size, 0x210 + output->layout.bytes);
        if (found->type != CUBIN_INFO || found->info != section)
            continue;
        while (cubin_next_record(found, &at, &record)) {
            if (record.attribute == CUBIN_ATTR_CBANK_PARAM_SIZE)
                cr_assert_eq(record.value, output->layout.bytes);
            if (record.attribute == CUBIN_ATTR_PARAM_CBANK)
                cr_assert_eq(cubin_get32(record.payload + 4), output->layout.bytes << 16 | 0x210);
            parameters += record.attribute == CUBIN_ATTR_KPARAM || record.attribute == CUBIN_ATTR_KPARAM_V2;
        }
        cr_assert_eq(parameters, 1u);
    }
    cr_assert(!alone || texts == 1);
    cubin_close(&cubin);
}

Test(kernels, all_are_rewritten_in_all_forms)
{
    for (size_t k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++)
        for (unsigned form = 0; form < 4; form++)
            for (int build = CUBIN_SUBSET; build <= CUBIN_WHOLE; build++) {
                struct coalesce_output output = {0};
                enum coalesce_refusal refusal = COALESCE_NONE;
                int error = rewrite(kernels[k], 200, form, (enum cubin_build)build, &output, &refusal);

                cr_assert_eq(error, 0, "%s: %s", kernels[k], coalesce_refusal_name(refusal));
                check_output(&output, kernels[k], build == CUBIN_SUBSET);
                cr_expect_eq(output.constants, strcmp(kernels[k], "constant") == 0, "%s", kernels[k]);
                free(output.image);
            }
}

/* Words that read bank 0 from the first parameter on, the member's own place aside. */
static unsigned long count_reads(const void *bytes, size_t size, const char *kernel)
{
    enum coalesce_refusal refusal;
    unsigned long count = 0;
    struct cubin cubin;
    uint32_t symbol, section;

    cr_assert_eq(cubin_open(&cubin, bytes, size, &refusal), 0);
    section = cubin_find_kernel(&cubin, kernel, &symbol);
    for (uint64_t at = 0; at < cubin.sections[section].size; at += SASS_WORD) {
        struct sass_instruction found = sass_decode(sass_word_at(cubin.sections[section].data, at));

        count += found.constant && found.bank == 0 && found.offset >= 0x210;
        count += found.constant && found.bank == 0 && found.offset >= 0xc && found.offset < 0x18;
    }
    cubin_close(&cubin);
    return count;
}

Test(kernels, no_read_of_the_launch_is_left)
{
    for (size_t k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++) {
        struct coalesce_output output = {0};
        enum coalesce_refusal refusal;

        if (strcmp(kernels[k], "uniform_index") == 0) /* its reads stay in bank 0, with another index */
            continue;
        cr_assert_gt(count_reads(image, image_size, kernels[k]), 0u);
        cr_assert_eq(rewrite(kernels[k], 8, 0, CUBIN_SUBSET, &output, &refusal), 0);
        cr_expect_eq(count_reads(output.image, output.size, kernels[k]), 0u, "%s", kernels[k]);
        free(output.image);
    }
}

Test(kernels, layout_is_as_large_as_the_area_allows)
{
    struct coalesce_output output = {0};
    enum coalesce_refusal refusal;

    cr_assert_eq(rewrite("plain", UINT32_MAX, 0, CUBIN_SUBSET, &output, &refusal), 0);
    cr_assert_eq(output.layout.capacity, 252u);
    cr_assert_eq(output.layout.parameter_bytes, 24u);
    cr_assert_eq(output.layout.base, 0x200u);
    cr_assert_eq(output.layout.stride, 128u);
    cr_assert_eq(output.layout.bytes, 0x200u + 251 * 128 + 24);
    cr_assert_leq(output.layout.bytes, (uint32_t)COALESCE_AREA_MAX);
    free(output.image);
    cr_assert_eq(rewrite("plain", 1, 0, CUBIN_SUBSET, &output, &refusal), 0);
    cr_assert_eq(output.layout.capacity, 1u);
    free(output.image);
    cr_assert_eq(rewrite("plain", 0, 0, CUBIN_SUBSET, &output, &refusal), -ENOTSUP);
}

Test(kernels, variable_is_the_programs_own)
{
    struct coalesce_output output = {0};
    enum coalesce_refusal refusal;
    bool found = false;

    cr_assert_eq(rewrite("variable", 8, 0, CUBIN_SUBSET, &output, &refusal), 0);
    for (size_t at = 0; at + 8 <= output.size; at += 4)
        found = found || memcmp((char *)output.image + at, &counter_at, 8) == 0;
    cr_assert(found);
    free(output.image);
    counter_at = 0; /* not known */
    cr_assert_eq(rewrite("variable", 8, 0, CUBIN_SUBSET, &output, &refusal), -ENOTSUP);
    cr_assert_eq(refusal, COALESCE_GLOBAL);
}

Test(kernels, what_is_not_there_is_refused)
{
    struct coalesce_source source = {.bytes = image, .size = image_size, .kernel = "plain"};
    struct coalesce_output output = {0};
    enum coalesce_refusal refusal;

    cr_assert_eq(rewrite("nobody", 8, 0, CUBIN_SUBSET, &output, &refusal), -ENOTSUP);
    cr_assert_eq(refusal, COALESCE_NO_KERNEL);
    cr_assert_eq(sass_rewrite(&source, 80, 8, 0, &output, &refusal), -ENOTSUP);
    cr_assert_eq(refusal, COALESCE_ARCHITECTURE);
    source.unproven = true; /* then it is the image that is for another one */
    cr_assert_eq(sass_rewrite(&source, 80, 8, 0, &output, &refusal), -ENOTSUP);
    cr_assert_eq(refusal, COALESCE_NO_CODE);
    cr_assert_eq(sass_rewrite(&source, 75, 8, 0, &output, &refusal), -ENOTSUP);
    cr_assert_eq(refusal, COALESCE_ARCHITECTURE);
    source.size = 63;
    cr_assert_eq(sass_rewrite(&source, 90, 8, 0, &output, &refusal), -EINVAL);
    cr_assert_eq(refusal, COALESCE_IMAGE_BROKEN);
    source.size = image_size / 2;
    cr_assert_eq(sass_rewrite(&source, 90, 8, 0, &output, &refusal), -EINVAL);
    cr_assert_null(output.image);
}

/* The first word of the kernel's code in the image, to be replaced. */
static unsigned char *first_word(const char *kernel)
{
    enum coalesce_refusal refusal;
    struct cubin cubin;
    uint32_t symbol;
    const unsigned char *data;

    cr_assert_eq(cubin_open(&cubin, image, image_size, &refusal), 0);
    data = cubin.sections[cubin_find_kernel(&cubin, kernel, &symbol)].data;
    cubin_close(&cubin);
    return image + (data - image);
}

static enum coalesce_refusal refusal_with(const char *kernel, unsigned at, struct sass_word replacement)
{
    unsigned char *code = first_word(kernel) + (size_t)at * SASS_WORD;
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct coalesce_output output = {0};

    cubin_put64(code, replacement.lo);
    cubin_put64(code + 8, replacement.hi);
    if (rewrite(kernel, 8, COALESCE_RAGGED, CUBIN_SUBSET, &output, &refusal) == 0)
        free(output.image);
    return refusal;
}

Test(kernels, what_a_pack_would_change_is_refused)
{
    /* LDC R4 of %envreg1, %gridid, %nclusterid.z, gridDim.y and z together; an unknown opcode; a branch to the start.
     */
    cr_expect_eq(refusal_with("plain", 3, word(0x000e220000000800, 0x00001100ff047b82)), COALESCE_COOPERATIVE);
    cr_expect_eq(refusal_with("plain", 3, word(0x000e220000000a00, 0x00000c00ff047b82)), COALESCE_SPECIAL);
    cr_expect_eq(refusal_with("plain", 3, word(0x000e220000000800, 0x00005900ff047b82)), COALESCE_SPECIAL);
    cr_expect_eq(refusal_with("plain", 3, word(0x000e220000000a00, 0x00000400ff047b82)), COALESCE_SPECIAL);
    cr_expect_eq(refusal_with("plain", 3, word(0x000e220000000800, 0x0000000003047b82)), COALESCE_DEBUG);
    cr_expect_eq(refusal_with("plain", 3, word(0, 0x7fff)), COALESCE_INSTRUCTION);
    cr_expect_eq(refusal_with("plain", 3, sass_bra(sass_target(90), 3 * SASS_WORD, 0)), COALESCE_ENTRY);
    cr_expect_eq(refusal_with("plain", 3, sass_nop()), COALESCE_NONE);
    cr_expect_eq(refusal_with("plain", 0, sass_bra(sass_target(90), 0, 0x20)), COALESCE_ENTRY);
    /* UCGABAR_ARV: clusters, and grids that may differ. */
    cr_expect_eq(refusal_with("grid", 3, word(0x08000000, 0x79c7)), COALESCE_CLUSTER);
}

Test(kernels, those_that_use_variables_stay_in_their_process)
{
    static const char *const alone[] = {"plain", "grid", "indexed", "address", "z", "shared", "jumps", "constant"};
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct coalesce_source source = {.code = COALESCE_CUBIN, .bytes = image, .size = image_size};

    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        source.kernel = alone[i];
        cr_expect_eq(coalesce_isolated(&source, &refusal), 0, "%s: %s", alone[i], coalesce_refusal_name(refusal));
    }
    source.kernel = "variable";
    cr_expect_eq(coalesce_isolated(&source, &refusal), -ENOTSUP);
    cr_expect_eq(refusal, COALESCE_GLOBAL);
    source.kernel = "absent";
    cr_expect_eq(coalesce_isolated(&source, &refusal), -ENOTSUP);
    cr_expect_eq(refusal, COALESCE_NO_KERNEL);
    source.size = image_size / 2;
    cr_expect_eq(coalesce_isolated(&source, &refusal), -EINVAL);
}
