/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a cubin: each kernel in it is rewritten in all forms; what comes out must be a sound cubin again.
 *
 * With libFuzzer each input is rewritten in one form only, which a spare byte of the ELF header chooses: it learns to
 * change that byte, and executes many times more inputs.
 */
#include "coalesce/sass.h"
#include "tests/coalesce/fuzz_main.h"

enum { KERNELS_MAX = 16 }; /* so that one input does not take long */
enum { CHOICES = 32, CHOICE_BYTE = 15 /* the last of e_ident, which nobody reads */ };

static uint64_t address_of(void *context, const char *symbol)
{
    return symbol[0] ? 0x7f0000000000 : 0;
}

static void rewrite(const struct cubin *cubin, const char *kernel, unsigned choice)
{
    struct coalesce_source source = {.code = COALESCE_CUBIN,
                                     .bytes = cubin->bytes,
                                     .size = cubin->size,
                                     .kernel = kernel,
                                     .address = choice & 8 ? NULL : address_of,
                                     .unproven = true};
    uint64_t avoid = choice & 16 ? SASS_AVOID_PAIRS : 0;
    struct coalesce_output output = {0};
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct cubin again;

    if (sass_rewrite_avoiding(&source, cubin->sm, 1 + choice % 300, choice & 3, choice & 4 ? CUBIN_WHOLE : CUBIN_SUBSET,
                              avoid, &output, &refusal) < 0) {
        if (refusal == COALESCE_NONE)
            abort();
        return;
    }
    if (output.layout.bytes > COALESCE_AREA_MAX || output.layout.capacity == 0)
        abort();
    if (cubin_open(&again, output.image, output.size, &refusal) < 0)
        abort();
    cubin_close(&again);
    free(output.image);
}

static void rewrite_forms(const struct cubin *cubin, const char *kernel)
{
#ifdef FUZZ_WITH_LIBFUZZER
    rewrite(cubin, kernel, cubin->bytes[CHOICE_BYTE]);
#else
    for (unsigned choice = 0; choice < CHOICES; choice++)
        rewrite(cubin, kernel, choice);
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum coalesce_refusal refusal;
    struct cubin cubin;
    int kernels = 0;

    if (cubin_open(&cubin, data, size, &refusal) < 0)
        return 0;
    for (uint32_t i = 1; i < cubin.symbol_count && kernels < KERNELS_MAX; i++) {
        if ((cubin.symbols[i].info & 15) != CUBIN_SYMBOL_FUNCTION || !cubin.symbols[i].section)
            continue;
        kernels++;
        rewrite_forms(&cubin, cubin.symbols[i].name);
    }
    cubin_close(&cubin);
    return 0;
}

#ifndef FUZZ_WITH_LIBFUZZER
bool fuzz_seed(int number, uint8_t *bytes, size_t *size)
{
    return false;
}
#endif
