/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce/image.h"
#include "tests/coalesce/image_maker.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry one() { ret; }\n";
static const char *const one[] = {"one", NULL}, *const two[] = {"two", NULL}, *const both[] = {"one", "two", NULL};

struct wrapper {
    uint32_t magic, version;
    const void *data;
    const void *more;
};

static struct image measure(const void *start, size_t limit)
{
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct image image = {0};

    cr_assert(eq(int, image_measure(start, limit, &image, &refusal), 0), "%d", refusal);
    return image;
}

static void expect_refused(const void *start, size_t limit, int error, enum coalesce_refusal why)
{
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct image image = {.size = 4711};

    cr_expect(eq(int, image_measure(start, limit, &image, &refusal), error));
    cr_expect(eq(int, refusal, why));
    cr_expect(eq(sz, image.size, 4711)); /* set on success only */
}

static struct image_code find(const struct image *image, unsigned sm, const char *kernel)
{
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct image_code code = {0};

    cr_assert(eq(int, image_find(image, sm, kernel, &code, &refusal), 0), "%s: %d", kernel, refusal);
    return code;
}

static void expect_not_found(const struct image *image, unsigned sm, const char *kernel, int error,
                             enum coalesce_refusal why)
{
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct image_code code = {.size = 4711};

    cr_expect(eq(int, image_find(image, sm, kernel, &code, &refusal), error));
    cr_expect(eq(int, refusal, why));
    cr_expect(eq(sz, code.size, 4711));
}

/* ---- extents ---- */

Test(measure, text_ends_at_its_nul_or_at_the_limit)
{
    cr_expect(eq(sz, measure(text, SIZE_MAX).size, sizeof(text) - 1));
    cr_expect(eq(sz, measure(text, sizeof(text)).size, sizeof(text) - 1));
    cr_expect(eq(sz, measure(text, 20).size, 20));
    cr_expect(eq(int, measure(text, SIZE_MAX).kind, IMAGE_PTX));
    cr_expect(eq(sz, measure("//", SIZE_MAX).size, 2));
}

Test(measure, what_is_no_kind_of_image_is_refused)
{
    expect_refused(NULL, SIZE_MAX, -EINVAL, COALESCE_NO_IMAGE);
    expect_refused("", SIZE_MAX, -ENOTSUP, COALESCE_IMAGE_KIND);
    expect_refused(text, 0, -ENOTSUP, COALESCE_IMAGE_KIND);
    expect_refused(" \n", SIZE_MAX, -ENOTSUP, COALESCE_IMAGE_KIND);
    expect_refused("BC\xc0\xde", SIZE_MAX, -ENOTSUP, COALESCE_IMAGE_KIND);
    expect_refused("\177ELF\2\1\1", 8, -EINVAL, COALESCE_IMAGE_BROKEN);
}

Test(measure, a_cubin_ends_with_the_last_thing_in_its_headers)
{
    struct maker cubin = make_cubin(90, both);

    cr_expect(eq(sz, measure(cubin.bytes, SIZE_MAX).size, cubin.size));
    cr_expect(eq(sz, measure(cubin.bytes, cubin.size).size, cubin.size));
    cr_expect(eq(int, measure(cubin.bytes, SIZE_MAX).kind, IMAGE_CUBIN));
    for (size_t cut = 4; cut < cubin.size; cut++)
        expect_refused(cubin.bytes, cut, -EINVAL, COALESCE_IMAGE_BROKEN);
    cubin.bytes[18] = 62; /* e_machine: a program of this machine */
    expect_refused(cubin.bytes, cubin.size, -ENOTSUP, COALESCE_IMAGE_KIND);
    free(cubin.bytes);
}

Test(measure, wild_offsets_in_a_cubin_are_refused)
{
    static const uint64_t wild[] = {UINT64_MAX, UINT64_MAX - 63, 1ULL << 40, INT64_MAX};

    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        struct maker cubin = make_cubin(90, both);
        Elf64_Ehdr header;

        memcpy(&header, cubin.bytes, sizeof(header));
        make_u64(&cubin, header.e_shoff + 2 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_offset), wild[i]);
        expect_refused(cubin.bytes, cubin.size, -EINVAL, COALESCE_IMAGE_BROKEN);
        make_u64(&cubin, offsetof(Elf64_Ehdr, e_shoff), wild[i]);
        expect_refused(cubin.bytes, cubin.size, -EINVAL, COALESCE_IMAGE_BROKEN);
        free(cubin.bytes);
    }
}

Test(measure, the_number_of_sections_may_be_in_the_first_of_them)
{
    struct maker cubin = make_cubin(90, both);
    struct image_code code;
    struct image image;
    Elf64_Ehdr header;

    memcpy(&header, cubin.bytes, sizeof(header));
    make_u64(&cubin, header.e_shoff + offsetof(Elf64_Shdr, sh_size), header.e_shnum);
    make_u32(&cubin, header.e_shoff + offsetof(Elf64_Shdr, sh_link), header.e_shstrndx);
    header.e_shnum = 0;
    header.e_shstrndx = SHN_XINDEX;
    make_put(&cubin, 0, &header, sizeof(header));
    image = measure(cubin.bytes, SIZE_MAX);
    cr_expect(eq(sz, image.size, cubin.size));
    code = find(&image, 90, "two");
    image_code_finish(&code);
    free(cubin.bytes);
}

Test(measure, a_fatbin_without_a_known_limit_is_one_and_with_it_all_that_follow)
{
    struct maker maker = {0};
    size_t first = make_fatbin(&maker), end, second;
    struct image image;

    make_entry(&maker, first, MAKE_PTX, 80, MAKE_64, text, sizeof(text), 0);
    end = maker.size;
    second = make_fatbin(&maker);
    make_entry(&maker, second, MAKE_PTX, 80, MAKE_64, text, sizeof(text), 0);
    cr_expect(eq(sz, measure(maker.bytes, SIZE_MAX).size, end));
    image = measure(maker.bytes, maker.size);
    cr_expect(eq(sz, image.size, maker.size));
    cr_expect(eq(int, image.kind, IMAGE_FATBIN));
    expect_refused(maker.bytes, end - 1, -EINVAL, COALESCE_IMAGE_BROKEN);
    expect_refused(maker.bytes, maker.size - 1, -EINVAL, COALESCE_IMAGE_BROKEN);
    make_u64(&maker, 8, 1ULL << 40);
    expect_refused(maker.bytes, SIZE_MAX, -ENOTSUP, COALESCE_IMAGE_LARGE);
    free(maker.bytes);
}

Test(measure, a_wrapper_is_followed_to_its_fatbin_and_its_prelinked_ones)
{
    struct maker maker = {0}, other = {0};
    const void *array[] = {NULL, NULL};
    struct wrapper wrapper = {0x466243b1, 1, NULL, NULL};
    struct image image, copy;
    struct image_code code;

    make_entry(&maker, make_fatbin(&maker), MAKE_PTX, 80, MAKE_64, text, sizeof(text), 0);
    make_entry(&other, make_fatbin(&other), MAKE_PTX, 80, MAKE_64, ".entry two(){}", 14, 0);
    expect_refused(&wrapper, SIZE_MAX, -EINVAL, COALESCE_IMAGE_BROKEN);
    wrapper.data = maker.bytes;
    wrapper.more = "not an array in version 1";
    image = measure(&wrapper, sizeof(wrapper));
    cr_expect(eq(ptr, (void *)image.bytes, maker.bytes));
    expect_not_found(&image, 90, "two", -ENOTSUP, COALESCE_NO_KERNEL);
    wrapper.version = 2;
    wrapper.more = array;
    array[0] = other.bytes;
    image = measure(&wrapper, SIZE_MAX);
    cr_expect(eq(sz, image.prelinked_count, 1));
    code = find(&image, 90, "two");
    cr_expect(eq(sz, code.size, 14));
    cr_expect(eq(sz, image_copy_bytes(&image), maker.size + other.size));
    cr_assert(eq(int, image_copy(&image, &copy), 0));
    memset(other.bytes, 0, other.size); /* the program is done with it */
    memset(maker.bytes, 0, maker.size);
    code = find(&copy, 90, "two");
    cr_expect(eq(int, memcmp(code.bytes, ".entry two", 10), 0));
    code = find(&copy, 90, "one");
    image_finish(&copy);
    expect_refused(&wrapper, SIZE_MAX, -EINVAL, COALESCE_IMAGE_BROKEN);
    free(maker.bytes);
    free(other.bytes);
}

Test(copy, of_a_text_ends_with_a_nul)
{
    struct image image = measure(text, 20), copy;

    cr_assert(eq(int, image_copy(&image, &copy), 0));
    cr_expect(eq(sz, strlen((const char *)copy.bytes), 20));
    image_finish(&copy);
}

/* ---- choosing ---- */

/* A fatbin with cubins for these; the byte behind each name says which entry it was: see chosen(). */
struct choice {
    unsigned kind, arch;
    uint64_t flags;
};

static struct maker fatbin_of(const struct choice *choices, size_t count)
{
    struct maker maker = {0};
    size_t fatbin = make_fatbin(&maker);

    for (size_t i = 0; i < count; i++) {
        struct maker cubin = make_cubin(choices[i].arch, one);

        if (choices[i].kind == MAKE_CUBIN)
            make_entry(&maker, fatbin, MAKE_CUBIN, choices[i].arch, choices[i].flags, cubin.bytes, cubin.size, 0);
        else
            make_entry(&maker, fatbin, choices[i].kind, choices[i].arch, choices[i].flags, text, sizeof(text), 0);
        free(cubin.bytes);
    }
    return maker;
}

#define EXPECT_CHOICE(device, want_code, want_sm, want_specific, ...)                                                  \
    do {                                                                                                               \
        const struct choice choices_[] = {__VA_ARGS__};                                                                \
        struct maker maker_ = fatbin_of(choices_, sizeof(choices_) / sizeof(choices_[0]));                             \
        struct image image_ = measure(maker_.bytes, maker_.size);                                                      \
        struct image_code code_ = find(&image_, device, "one");                                                        \
        cr_expect(eq(int, code_.code, want_code));                                                                     \
        cr_expect(eq(uint, code_.sm, want_sm));                                                                        \
        cr_expect(eq(int, code_.specific, want_specific));                                                             \
        image_code_finish(&code_);                                                                                     \
        free(maker_.bytes);                                                                                            \
    } while (0)

#define CUBIN(arch)                                                                                                    \
    {                                                                                                                  \
        MAKE_CUBIN, arch, MAKE_64                                                                                      \
    }
#define CUBIN_A(arch)                                                                                                  \
    {                                                                                                                  \
        MAKE_CUBIN, arch, MAKE_64 | MAKE_SPECIFIC                                                                      \
    }
#define PTX(arch)                                                                                                      \
    {                                                                                                                  \
        MAKE_PTX, arch, MAKE_64                                                                                        \
    }
#define PTX_A(arch)                                                                                                    \
    {                                                                                                                  \
        MAKE_PTX, arch, MAKE_64 | MAKE_SPECIFIC                                                                        \
    }
#define FAMILY 0x200000

Test(find, the_highest_cubin_that_runs_on_the_device)
{
    EXPECT_CHOICE(90, COALESCE_CUBIN, 90, 0, CUBIN(80), CUBIN(90), CUBIN(100), PTX(90));
    EXPECT_CHOICE(86, COALESCE_CUBIN, 86, 0, CUBIN(80), CUBIN(86), CUBIN(89), CUBIN(75));
    EXPECT_CHOICE(89, COALESCE_CUBIN, 86, 0, CUBIN(86), CUBIN(80), CUBIN(90));
}

Test(find, an_architecture_specific_cubin_only_on_its_own_architecture_and_then_first)
{
    EXPECT_CHOICE(90, COALESCE_CUBIN, 90, 1, CUBIN(90), CUBIN_A(90));
    EXPECT_CHOICE(90, COALESCE_CUBIN, 90, 1, CUBIN_A(90), CUBIN(90));
    EXPECT_CHOICE(103, COALESCE_CUBIN, 100, 0, CUBIN(100), CUBIN_A(100));
}

Test(find, else_the_highest_ptx)
{
    EXPECT_CHOICE(90, COALESCE_PTX, 86, 0, CUBIN(80), PTX(52), PTX(86), PTX(100));
    EXPECT_CHOICE(90, COALESCE_PTX, 80, 0, CUBIN(100), PTX(80), PTX_A(89));
    EXPECT_CHOICE(90, COALESCE_PTX, 90, 1, PTX(90), PTX_A(90));
    EXPECT_CHOICE(103, COALESCE_PTX, 100, 0, PTX(90), {MAKE_PTX, 100, MAKE_64 | FAMILY});
    EXPECT_CHOICE(120, COALESCE_PTX, 90, 0, PTX(90), {MAKE_PTX, 100, MAKE_64 | FAMILY});
}

Test(find, nothing_for_the_device)
{
    const struct choice choices[] = {CUBIN(80), PTX(100), {MAKE_CUBIN, 90, 0x10}, {8, 90, MAKE_64}, {MAKE_PTX, 0, 1}};
    struct maker maker = fatbin_of(choices, 5);
    struct image image = measure(maker.bytes, maker.size);

    expect_not_found(&image, 90, "one", -ENOTSUP, COALESCE_NO_CODE);
    expect_not_found(&image, 90, NULL, -ENOTSUP, COALESCE_NO_CODE);
    expect_not_found(&image, 86, "two", -ENOTSUP, COALESCE_NO_KERNEL);
    free(maker.bytes);
}

Test(find, the_candidate_that_has_the_kernel)
{
    struct maker maker = {0}, a = make_cubin(90, one), b = make_cubin(90, two);
    size_t fatbin = make_fatbin(&maker);
    struct image_code code;
    struct image image;

    make_entry(&maker, fatbin, MAKE_CUBIN, 90, MAKE_64, a.bytes, a.size, 0);
    make_entry(&maker, fatbin, MAKE_CUBIN, 90, MAKE_64, b.bytes, b.size, 0);
    fatbin = make_fatbin(&maker);
    make_entry(&maker, fatbin, MAKE_PTX, 50, MAKE_64, ".entry three ( ) { }", 20, 0);
    image = measure(maker.bytes, maker.size);
    code = find(&image, 90, "two");
    cr_expect(eq(sz, code.size, (b.size + 7) / 8 * 8)); /* with the padding of its entry */
    cr_expect(eq(int, image_code_has(&code, "two"), 1));
    cr_expect(eq(int, image_code_has(&code, "one"), 0));
    code = find(&image, 90, "three");
    cr_expect(eq(int, code.code, COALESCE_PTX));
    cr_expect(eq(sz, code.size, 20)); /* the padding is no text */
    expect_not_found(&image, 90, "four", -ENOTSUP, COALESCE_NO_KERNEL);
    expect_not_found(&image, 90, "", -ENOTSUP, COALESCE_NO_KERNEL);
    expect_not_found(&image, 90, "tw", -ENOTSUP, COALESCE_NO_KERNEL);
    free(maker.bytes);
    free(a.bytes);
    free(b.bytes);
}

Test(find, in_a_bare_cubin_and_in_bare_text)
{
    struct maker cubin = make_cubin(80, both);
    struct image image = measure(cubin.bytes, SIZE_MAX);
    struct image_code code = find(&image, 86, "two");

    cr_expect(eq(uint, code.sm, 80));
    expect_not_found(&image, 86, "three", -ENOTSUP, COALESCE_NO_KERNEL);
    expect_not_found(&image, 90, "two", -ENOTSUP, COALESCE_NO_CODE);
    cubin.bytes[EI_ABIVERSION] = 7; /* the architecture in the low byte */
    make_u32(&cubin, offsetof(Elf64_Ehdr, e_flags), 0x500550);
    cr_expect(eq(uint, find(&image, 80, "one").sm, 80));
    image = measure(text, SIZE_MAX);
    cr_expect(eq(int, find(&image, 90, "one").code, COALESCE_PTX));
    expect_not_found(&image, 90, "ret", -ENOTSUP, COALESCE_NO_KERNEL);
    free(cubin.bytes);
}

Test(find, names_in_comments_and_strings_are_no_kernels)
{
    static const char trap[] = "// .entry a()\n/* .entry b() */ .pragma \".entry c\"; .entry/**/d() {}";
    struct image image = measure(trap, SIZE_MAX);

    expect_not_found(&image, 90, "a", -ENOTSUP, COALESCE_NO_KERNEL);
    expect_not_found(&image, 90, "b", -ENOTSUP, COALESCE_NO_KERNEL);
    expect_not_found(&image, 90, "c", -ENOTSUP, COALESCE_NO_KERNEL);
    cr_expect(eq(sz, find(&image, 90, "d").size, sizeof(trap) - 1));
}

/* ---- packed ---- */

static char *read_file(const char *name, size_t *size)
{
    char path[4096], *bytes = malloc(1 << 20);
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", getenv("COALESCE_TESTS_DATA") ? getenv("COALESCE_TESTS_DATA") : ".", name);
    file = fopen(path, "rb");
    cr_assert(file && bytes, "%s", path);
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static void need(const char *library)
{
    if (!dlopen(library, RTLD_NOW))
        cr_skip("%s is not installed", library);
}

static void expect_unpacks(const char *name)
{
    size_t size, plain_size;
    char *packed = read_file(name, &size), *plain = read_file("kernels.ptx", &plain_size);
    struct image image = measure(packed, size);
    struct image_code code = find(&image, 90, "saxpy");

    cr_expect(eq(int, code.code, COALESCE_PTX));
    cr_expect(eq(uint, code.sm, 80));
    cr_expect(gt(sz, code.size, plain_size / 2));
    cr_expect(eq(int, image_code_has(&code, "gemm"), 1));
    cr_expect(eq(int, image_code_has(&code, "memory"), 0));
    cr_expect(ne(ptr, code.owned, NULL));
    image_code_finish(&code);
    free(packed);
    free(plain);
}

Test(packed, zstd_as_nvcc_writes_it)
{
    need("libzstd.so.1");
    expect_unpacks("kernels.zstd.fatbin");
}

Test(packed, lz4_as_nvcc_writes_it)
{
    need("liblz4.so.1");
    expect_unpacks("kernels.lz4.fatbin");
}

Test(packed, a_bomb_is_refused_before_memory_is_taken)
{
    static const unsigned char lz4[] = {0x50, 'h', 'e', 'l', 'l', 'o'};
    struct maker maker = {0};
    size_t fatbin = make_fatbin(&maker);
    size_t entry = make_entry(&maker, fatbin, MAKE_PTX, 80, MAKE_64 | MAKE_LZ4, lz4, sizeof(lz4), 5);
    struct image image = measure(maker.bytes, maker.size);

    need("liblz4.so.1");
    cr_expect(eq(sz, find(&image, 90, NULL).size, 5));
    make_u64(&maker, entry + 56, 1 << 20);
    expect_not_found(&image, 90, NULL, -EINVAL, COALESCE_IMAGE_BROKEN);
    make_u64(&maker, entry + 56, IMAGE_BYTES_MAX + 1ULL);
    expect_not_found(&image, 90, NULL, -ENOTSUP, COALESCE_IMAGE_LARGE);
    make_u64(&maker, entry + 56, 6);
    expect_not_found(&image, 90, NULL, -EINVAL, COALESCE_IMAGE_BROKEN);
    make_u64(&maker, entry + 56, 5);
    make_u32(&maker, entry + 16, 9); /* more than the payload */
    expect_not_found(&image, 90, NULL, -EINVAL, COALESCE_IMAGE_BROKEN);
    make_u64(&maker, entry + 40, MAKE_64); /* packed, but no method */
    expect_not_found(&image, 90, NULL, -ENOTSUP, COALESCE_COMPRESSION);
    free(maker.bytes);
}

Test(entries, that_do_not_fit_are_refused)
{
    static const uint64_t wild[] = {UINT64_MAX, UINT64_MAX - 63, 1 << 20, sizeof(text) + 100};
    struct maker maker = {0};
    size_t entry = make_entry(&maker, make_fatbin(&maker), MAKE_PTX, 80, MAKE_64, text, sizeof(text), 0);
    struct image image = measure(maker.bytes, maker.size);

    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        make_u64(&maker, entry + 8, wild[i]);
        expect_not_found(&image, 90, "one", -EINVAL, COALESCE_IMAGE_BROKEN);
    }
    make_u64(&maker, entry + 8, 8);
    make_u32(&maker, entry + 4, 63);
    expect_not_found(&image, 90, "one", -EINVAL, COALESCE_IMAGE_BROKEN);
    make_u32(&maker, entry + 4, UINT32_MAX);
    expect_not_found(&image, 90, "one", -EINVAL, COALESCE_IMAGE_BROKEN);
    free(maker.bytes);
}

/* ---- hash ---- */

/* Values of the reference implementation, published with many ports. */
Test(hash, is_murmur3_x64_128)
{
    struct image_digest empty = image_hash("", 0, 0), hello = image_hash("hello", 5, 0);
    struct image_digest pangram = image_hash("The quick brown fox jumps over the lazy dog", 43, 0);

    cr_expect(eq(u64, empty.words[0] | empty.words[1], 0));
    cr_expect(eq(u64, hello.words[0], 0xcbd8a7b341bd9b02));
    cr_expect(eq(u64, hello.words[1], 0x5b1e906a48ae1d19));
    cr_expect(eq(u64, pangram.words[0], 0xe34bbc7bbc071b6c));
    cr_expect(eq(u64, pangram.words[1], 0x7a433ca9c49a9347));
    cr_expect(ne(u64, image_hash("hello", 5, 1).words[0], hello.words[0]));
}
