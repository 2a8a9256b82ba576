/* SPDX-License-Identifier: Apache-2.0
 *
 * For development: rewrites kernels of a cubin and tells what came out, a line for each.
 *
 *   rewrite_tool --decode FILE.bin
 *   rewrite_tool FILE.cubin [--kernel NAME] [--members N] [--fold] [--ragged] [--whole] [--avoid MASK] [--quiet]
 *                [-o OUT]
 *
 * --decode reads plain words of 16 bytes and tells what the decoder makes of each; check-decoder.py compares that with
 * a disassembler. Variables of the module get made-up addresses. --avoid: uniform registers that are not to be used
 * (0x1555555555555555: no pairs). With --quiet only a count for each refusal is printed, so that several files can be
 * summed up. --unproven: also architectures on which nothing ran. Exit status 0: all rewritten; 2: some were not; 1:
 * anything else went wrong.
 */
#include "coalesce/sass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *file, *kernel, *out;
    uint32_t members;
    unsigned form;
    enum cubin_build build;
    uint64_t avoid;
    bool quiet, decode, unproven;
};

static unsigned long counts[COALESCE_REFUSAL_COUNT], failed;

static uint64_t address_of(void *context, const char *symbol)
{
    return 0x700000000000;
}

static int read_file(const char *name, unsigned char **bytes, size_t *size)
{
    FILE *file = fopen(name, "rb");
    long length;

    if (!file)
        return -errno;
    fseek(file, 0, SEEK_END);
    length = ftell(file);
    rewind(file);
    *bytes = malloc(length > 0 ? (size_t)length : 1);
    *size = *bytes ? fread(*bytes, 1, (size_t)length, file) : 0;
    fclose(file);
    return *bytes && *size == (size_t)length ? 0 : -EIO;
}

static int write_file(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(name, "wb");
    size_t written;

    if (!file)
        return -errno;
    written = fwrite(bytes, 1, size, file);
    return fclose(file) == 0 && written == size ? 0 : -EIO;
}

/* For each word: opcode, name, uniform registers written, then bank, offset, bytes, indexed; special register. */
static int decode_file(const char *name)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    int error = read_file(name, &bytes, &size);

    for (size_t at = 0; error == 0 && at + SASS_WORD <= size; at += SASS_WORD) {
        struct sass_instruction found = sass_decode(sass_word_at(bytes, at));
        const char *text = sass_name(found.opcode, found.bit91);

        printf("%03x.%d\t%s\t%llx\t", found.opcode, found.bit91, text ? text : "?", (unsigned long long)found.writes);
        if (found.constant)
            printf("c%u 0x%x %u %d", found.bank, found.offset, found.bytes, found.indexed);
        printf("\t%d\n", found.special);
    }
    free(bytes);
    return error;
}

static void describe(const struct cubin *cubin, const char *name, const struct options *options,
                     const struct coalesce_output *output)
{
    struct sass_registers registers = {0};
    enum coalesce_refusal refusal;
    struct sass_facts facts;

    if (sass_analyse(cubin, name, &facts, &refusal) < 0)
        return;
    facts.uniform_written |= options->avoid;
    sass_choose_registers(&facts, options->form, &registers, &refusal);
    printf("%s: rewritten, parameters %u, capacity %u, %s UR%u, %u words of %u changed or added%s%s%s, image %zu\n",
           name, output->layout.parameter_bytes, output->layout.capacity, registers.indexed ? "indexed by" : "handle",
           registers.indexed ? registers.place : registers.handle, output->instructions, output->code_bytes / SASS_WORD,
           facts.reads_address ? ", address" : "", facts.reads_ctaid_z ? ", z" : "",
           output->constants ? ", constants" : "", output->size);
}

static int rewrite_one(const struct options *options, const struct cubin *cubin, const char *name)
{
    struct coalesce_source source = {.code = COALESCE_CUBIN,
                                     .bytes = cubin->bytes,
                                     .size = cubin->size,
                                     .kernel = name,
                                     .address = address_of,
                                     .unproven = options->unproven};
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct coalesce_output output;
    int error = sass_rewrite_avoiding(&source, cubin->sm, options->members, options->form, options->build,
                                      options->avoid, &output, &refusal);

    counts[refusal]++;
    if (error < 0) {
        failed++;
        if (!options->quiet)
            printf("%s: %s (%s)\n", name, coalesce_refusal_name(refusal), strerror(-error));
        return error == -ENOTSUP ? 0 : error;
    }
    if (!options->quiet)
        describe(cubin, name, options, &output);
    if (options->out)
        error = write_file(options->out, output.image, output.size);
    free(output.image);
    return error;
}

static int rewrite_file(const struct options *options)
{
    enum coalesce_refusal refusal = COALESCE_NONE;
    unsigned char *bytes = NULL;
    struct cubin cubin = {0};
    size_t size = 0;
    int error = read_file(options->file, &bytes, &size);

    if (error == 0)
        error = cubin_open(&cubin, bytes, size, &refusal);
    if (error < 0)
        fprintf(stderr, "%s: %s %s\n", options->file, strerror(-error), coalesce_refusal_name(refusal));
    for (uint32_t i = 1; error == 0 && i < cubin.symbol_count; i++) {
        const struct cubin_symbol *symbol = &cubin.symbols[i];

        /* 0x10 in st_other: an entry. */
        if ((symbol->info & 15) != CUBIN_SYMBOL_FUNCTION || !(symbol->other & 0x10) || !symbol->section)
            continue;
        if (!options->kernel || strcmp(options->kernel, symbol->name) == 0)
            error = rewrite_one(options, &cubin, symbol->name);
    }
    if (cubin.sections)
        cubin_close(&cubin);
    free(bytes);
    return error;
}

static bool parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--fold") == 0)
            options->form |= COALESCE_FOLD;
        else if (strcmp(argv[i], "--ragged") == 0)
            options->form |= COALESCE_RAGGED;
        else if (strcmp(argv[i], "--whole") == 0)
            options->build = CUBIN_WHOLE;
        else if (strcmp(argv[i], "--decode") == 0)
            options->decode = true;
        else if (strcmp(argv[i], "--unproven") == 0)
            options->unproven = true;
        else if (strcmp(argv[i], "--quiet") == 0)
            options->quiet = true;
        else if (strcmp(argv[i], "--kernel") == 0 && i + 1 < argc)
            options->kernel = argv[++i];
        else if (strcmp(argv[i], "--avoid") == 0 && i + 1 < argc)
            options->avoid = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--members") == 0 && i + 1 < argc)
            options->members = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            options->out = argv[++i];
        else if (argv[i][0] != '-' && !options->file)
            options->file = argv[i];
        else
            return false;
    }
    return options->file != NULL;
}

int main(int argc, char **argv)
{
    struct options options = {.members = 16};
    int error;

    if (!parse(&options, argc, argv)) {
        fprintf(stderr, "usage: rewrite_tool FILE.cubin [--kernel NAME] [--members N] [--fold] [--ragged] [--whole] "
                        "[--avoid MASK] [--unproven] [--quiet] [-o OUT]\n");
        return 1;
    }
    error = options.decode ? decode_file(options.file) : rewrite_file(&options);
    for (int i = 0; options.quiet && i < COALESCE_REFUSAL_COUNT; i++)
        if (counts[i])
            printf("%s %lu\n", coalesce_refusal_name((enum coalesce_refusal)i), counts[i]);
    if (error < 0)
        return 1;
    return failed ? 2 : 0;
}
