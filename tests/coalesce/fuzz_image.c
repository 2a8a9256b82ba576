/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: an image of a known size is measured, copied, searched for a kernel on several devices, and hashed.
 */
#include "coalesce/image.h"
#include "tests/coalesce/fuzz_main.h"
#include "tests/coalesce/image_maker.h"

static void search(const struct image *image)
{
    static const unsigned devices[] = {75, 80, 89, 90, 100, 120};
    static const char *const kernels[] = {NULL, "one", "saxpy", ""};
    enum coalesce_refusal refusal;
    struct image_code code;

    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        for (size_t k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++) {
            if (image_find(image, devices[i], kernels[k], &code, &refusal))
                continue;
            if (kernels[k] && !image_code_has(&code, kernels[k]))
                abort();
            image_hash(code.bytes, code.size, devices[i]);
            image_code_finish(&code);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct image image, copy;

    /* A wrapper holds pointers, which nobody can check. */
    if (size >= 4 && memcmp(data, "\xb1\x43\x62\x46", 4) == 0)
        return 0;
    if (image_measure(data, size, &image, &refusal)) {
        if (refusal == COALESCE_NONE)
            abort();
        return 0;
    }
    if (image.size > size)
        abort();
    if (image_copy(&image, &copy))
        return 0;
    search(&image);
    search(&copy);
    image_finish(&copy);
    return 0;
}

#ifndef FUZZ_WITH_LIBFUZZER
static void give(struct maker *maker, uint8_t *bytes, size_t *size)
{
    memcpy(bytes, maker->bytes, maker->size);
    *size = maker->size;
    free(maker->bytes);
}

bool fuzz_seed(int number, uint8_t *bytes, size_t *size)
{
    static const char *const names[] = {"one", "two", NULL};
    static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n.entry one() { ret; } .entry saxpy() {}";
    static const unsigned char lz4[] = {0x50, '.', 'x', ' ', ' ', 'o'};
    struct maker cubin = make_cubin(90, names), fatbin = {0};
    size_t at;

    if (number == 0) {
        give(&cubin, bytes, size);
        return true;
    }
    for (int i = 0; i < number; i++) {
        at = make_fatbin(&fatbin);
        make_entry(&fatbin, at, MAKE_CUBIN, 90, MAKE_64, cubin.bytes, cubin.size, 0);
        make_entry(&fatbin, at, MAKE_CUBIN, 90, MAKE_64 | MAKE_SPECIFIC, cubin.bytes, cubin.size, 0);
        make_entry(&fatbin, at, MAKE_PTX, 80, MAKE_64, text, sizeof(text), 0);
        make_entry(&fatbin, at, MAKE_PTX, 75, MAKE_64 | MAKE_LZ4, lz4, sizeof(lz4), 5);
    }
    free(cubin.bytes);
    give(&fatbin, bytes, size);
    return number < 3;
}
#endif
