/* SPDX-License-Identifier: Apache-2.0
 *
 * Cubins that contradict themselves, as fuzzing found them: sass_kernels.cubin with one or two fields changed. What is
 * made of them must be a sound cubin, or they are refused.
 */
#include "coalesce/sass.h"
#include "tests/coalesce/kernels.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTION = 64, SYMBOL = 24 }; /* sizes in ELF64 */

static unsigned char *image;
static size_t image_size;
static struct cubin cubin; /* what the image was before it was changed */

static void load(void)
{
    enum coalesce_refusal refusal;

    image = read_kernels(&image_size);
    cr_assert_eq(cubin_open(&cubin, image, image_size, &refusal), 0);
}

static void unload(void)
{
    cubin_close(&cubin);
    free(image);
}

TestSuite(cubin, .init = load, .fini = unload);

static uint32_t section_of(const char *name)
{
    for (uint32_t i = 1; i < cubin.section_count; i++)
        if (strcmp(cubin.sections[i].name, name) == 0)
            return i;
    cr_assert(false, "no section %s", name);
    return 0;
}

/* Places to change, in the image. */
static unsigned char *header_of(const char *name)
{
    return image + cubin_get64(image + 40) + (size_t)section_of(name) * SECTION;
}

static unsigned char *data_of(const char *name)
{
    return image + (cubin.sections[section_of(name)].data - cubin.bytes);
}

static void rename_to(const char *name, const char *other)
{
    memcpy(header_of(name), header_of(other), 4);
}

static int rewrite(const char *kernel, enum cubin_build build, enum coalesce_refusal *refusal)
{
    struct coalesce_source source = {.code = COALESCE_CUBIN, .bytes = image, .size = image_size, .kernel = kernel};
    struct coalesce_output output = {0};
    struct cubin made;
    int error = sass_rewrite_with(&source, 90, 4, 0, build, &output, refusal);

    if (error < 0)
        return error;
    cr_assert_eq(cubin_open(&made, output.image, output.size, refusal), 0, "what was made of %s is not sound", kernel);
    cubin_close(&made);
    free(output.image);
    return 0;
}

static void expect_kind_refused(const char *kernel)
{
    enum coalesce_refusal refusal = COALESCE_NONE;

    cr_assert_eq(rewrite(kernel, CUBIN_SUBSET, &refusal), -ENOTSUP);
    cr_assert_eq(refusal, COALESCE_IMAGE_KIND);
}

Test(cubin, relocations_kept_for_their_name_need_what_they_apply_to)
{
    rename_to(".rela.nv.constant4", ".nv.compat");
    expect_kind_refused("plain");
}

Test(cubin, relocations_kept_for_a_symbol_in_them_need_what_they_apply_to)
{
    unsigned char *relocation = data_of(".rela.nv.constant4"), *symbols = data_of(".symtab");
    uint32_t symbol = cubin_get32(relocation + 12);

    /* The variable's symbol is now in relocations of debug information, which is not kept. */
    cubin_put16(symbols + (size_t)symbol * SYMBOL + 6, (uint16_t)section_of(".rela.debug_frame"));
    rename_to(".debug_frame", ".nv.constant3");
    expect_kind_refused("variable");
}

Test(cubin, relocations_of_debug_information_are_not_followed)
{
    uint32_t symbol = cubin_get32(data_of(".rela.nv.constant4") + 12);

    /* They are not validated: the first names a symbol that does not exist. */
    cubin_put32(data_of(".rela.debug_frame") + 12, 0x7fffffff);
    cubin_put16(data_of(".symtab") + (size_t)symbol * SYMBOL + 6, (uint16_t)section_of(".debug_frame"));
    expect_kind_refused("variable");
}

Test(cubin, relocation_behind_the_end_of_shortened_records_is_refused)
{
    unsigned char *relocation = data_of(".rela.nv.constant4");

    cubin_put32(header_of(".rela.nv.constant4") + 44, section_of(".nv.info.plain"));
    cubin_put64(relocation, cubin.sections[section_of(".nv.info.plain")].size - 4);
    cubin_put32(relocation + 12, 1);
    expect_kind_refused("plain");
}

Test(cubin, code_with_the_name_of_frames_is_not_kept_empty)
{
    enum coalesce_refusal refusal;

    rename_to(".text.grid", ".debug_frame");
    cr_assert_eq(rewrite("plain", CUBIN_SUBSET, &refusal), 0);
}

Test(cubin, tables_are_not_code)
{
    enum coalesce_refusal refusal = COALESCE_NONE;
    unsigned char *flags = header_of(".rela.debug_frame") + 8;
    struct cubin again;

    cubin_put64(flags, cubin_get64(flags) | CUBIN_EXECUTE);
    cr_assert_eq(cubin_open(&again, image, image_size, &refusal), -EINVAL);
    cr_assert_eq(refusal, COALESCE_IMAGE_BROKEN);
}
