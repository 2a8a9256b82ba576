/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: a PTX text is rewritten for several devices and forms. What comes out must be readable again: it is
 * rewritten once more, which must not fail because of the text (it may be refused: it holds our own names).
 */
#include "coalesce/coalesce.h"
#include "tests/coalesce/fuzz_main.h"

static uint64_t address(void *context, const char *symbol)
{
    return strlen(symbol) % 2 ? 0x7f0000000000 : 0;
}

static void rewrite(const uint8_t *data, size_t size, const char *kernel, unsigned form)
{
    struct coalesce_source source = {
        .code = COALESCE_PTX, .bytes = data, .size = size, .kernel = kernel, .address = address};
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct coalesce_output output, again;
    unsigned sm = form & 1 ? 90 : 86;
    int error = ptx_rewrite(&source, sm, 1 + 20 * form, form, &output, &refusal);

    if (error) {
        if (refusal == COALESCE_NONE)
            abort();
        return;
    }
    if (output.layout.bytes > COALESCE_AREA_MAX || output.layout.capacity == 0)
        abort();
    source.bytes = output.image;
    source.size = output.size;
    error = ptx_rewrite(&source, sm, 1, form, &again, &refusal);
    if (error == 0)
        free(again.image);
    else if (refusal == COALESCE_IMAGE_BROKEN || refusal == COALESCE_NO_KERNEL)
        abort();
    free(output.image);
}

/* With libFuzzer each text is rewritten in one form, which its last byte chooses: many times more texts are executed.
 */
static void rewrite_forms(const uint8_t *data, size_t size, const char *kernel)
{
#ifdef FUZZ_WITH_LIBFUZZER
    rewrite(data, size, kernel, size ? data[size - 1] & 3 : 0);
#else
    for (unsigned form = 0; form < 4; form++)
        rewrite(data, size, kernel, form);
#endif
}

/* The first kernel of the text, or k. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *found = size ? memmem(data, size, ".entry ", 7) : NULL;
    const char *end = (const char *)data + size;
    char name[64] = "k";

    if (found) {
        size_t length = 0;

        found += 7;
        while (found + length < end && length < sizeof(name) - 1 && found[length] && !strchr(" (\n\t", found[length]))
            length++;
        memcpy(name, found, length);
        name[length] = '\0';
    }
    rewrite_forms(data, size, name);
    return 0;
}

#ifndef FUZZ_WITH_LIBFUZZER
bool fuzz_seed(int number, uint8_t *bytes, size_t *size)
{
    static const char *const texts[] = {
        ".version 8.4\n.target sm_80\n.address_size 64\n.global .align 4 .u32 g[4] = {1, 2};\n.const .u32 c = 3;\n"
        ".shared .b8 s[16];\n.func (.param .b32 o) f(.param .b32 i) { .reg .b32 %r<3>; ld.param.b32 %r1, [i];\n"
        "mov.u32 %r2, %ctaid.z; st.param.b32 [o], %r1; ret; }\n"
        ".visible .entry k(.param .u64 .ptr .global .align 8 a, .param .align 8 .b8 b[24]) .maxntid 32, 1, 1\n"
        "{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n.loc 1 2 3, function_name $L+4, inlined_at 1 2 3\n"
        "ld.param.u64 %rd1, [a]; ld.param.v2.u32 {%r1, %r2}, [b+8]; mov.b64 %rd2, b; cvta.param.u64 %rd3, a;\n"
        "mov.u64 %rd4, g; ld.global.u32 %r3, [g+4]; ld.const.u32 %r4, [c]; mov.u32 %r5, %nctaid.x;\n"
        "$L: @%p1 bra $L; mov.v4.u32 {%r1, %r2, %r3, %r4}, %ctaid; { .param .b32 i, o; st.param.b32 [i], %r1;\n"
        "call.uni (o), f, (i); } /* } */ .pragma \"}\"; T: .branchtargets $L; brx.idx %r1, T; ret; }\n"
        ".section .debug_str { $L__s: .b8 1 }\n",
        ".version 7.8\n.target sm_70\n.address_size 64\n.entry k() { ret; }\n",
    };

    if (number >= 2)
        return false;
    *size = strlen(texts[number]);
    memcpy(bytes, texts[number], *size);
    return true;
}
#endif
