/* SPDX-License-Identifier: Apache-2.0
 *
 * A main() for fuzz targets that are not built with libFuzzer: changes bytes of a few seeds, always in the same way, a
 * bounded number of times, so that the target also runs as a plain test. Arguments: executions, then files with seeds
 * or folders of them.
 *
 * The target gives seeds of its own with fuzz_seed(), which returns false for a number that it has none for.
 */
#ifndef COISSUE_TESTS_COALESCE_FUZZ_MAIN_H
#define COISSUE_TESTS_COALESCE_FUZZ_MAIN_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifndef FUZZ_WITH_LIBFUZZER
enum { FUZZ_SEED_BYTES = 1 << 17, FUZZ_SEEDS_MAX = 512 };

static uint8_t fuzz_seeds[FUZZ_SEEDS_MAX][FUZZ_SEED_BYTES];
static size_t fuzz_sizes[FUZZ_SEEDS_MAX];
static int fuzz_count;

bool fuzz_seed(int number, uint8_t *bytes, size_t *size);

static uint32_t fuzz_random(void)
{
    static uint32_t state = 1; /* xorshift32 */

    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* One change: a byte, a word with an extreme value, a stretch copied, removed or put in from elsewhere, the end cut. */
static size_t fuzz_change(uint8_t *bytes, size_t size)
{
    static const uint64_t extreme[] = {0, 1, UINT64_MAX, INT64_MAX, UINT32_MAX, 1ULL << 32, 0x7fff, 64};
    size_t at = fuzz_random() % (size + 1), from = fuzz_random() % (size + 1), length = fuzz_random() % 32;

    if (at + 8 > size || from + length > size || at + length > size)
        return size;
    switch (fuzz_random() % 7) {
    case 0:
        bytes[at] = (uint8_t)fuzz_random();
        break;
    case 1:
        bytes[at] ^= (uint8_t)(1u << fuzz_random() % 8);
        break;
    case 2:
        memcpy(bytes + at, &extreme[fuzz_random() % 8], 1u << fuzz_random() % 4);
        break;
    case 3:
        memmove(bytes + at, bytes + from, length);
        break;
    case 4:
        memmove(bytes + at, bytes + at + length, size - at - length);
        return size - length;
    case 5:
        if (size + length > FUZZ_SEED_BYTES)
            break;
        memmove(bytes + at + length, bytes + at, size - at);
        memmove(bytes + at, bytes + from, length);
        return size + length;
    default:
        return fuzz_random() % 8 ? size : at;
    }
    return size;
}

static void fuzz_read_file(const char *name)
{
    FILE *file = fuzz_count < FUZZ_SEEDS_MAX ? fopen(name, "rb") : NULL;

    if (!file) {
        fprintf(stderr, "cannot open %s, or there are too many seeds\n", name);
        exit(1);
    }
    fuzz_sizes[fuzz_count] = fread(fuzz_seeds[fuzz_count], 1, FUZZ_SEED_BYTES, file);
    fuzz_count++;
    fclose(file);
}

/* A file, or all files of a folder in the order of their names. */
static void fuzz_read(const char *name)
{
    struct dirent **entries;
    int count = scandir(name, &entries, NULL, alphasort);
    char path[4096];

    if (count < 0) {
        fuzz_read_file(name);
        return;
    }
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", name, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            fuzz_read_file(path);
        free(entries[i]);
    }
    free(entries);
}

static void fuzz_execute(void)
{
    int seed = (int)(fuzz_random() % (uint32_t)fuzz_count);
    uint8_t *copy = malloc(FUZZ_SEED_BYTES), *exact;
    size_t size = fuzz_sizes[seed];

    if (!copy)
        exit(1);
    memcpy(copy, fuzz_seeds[seed], size);
    for (uint32_t changes = 1 + fuzz_random() % 8; changes; changes--)
        size = fuzz_change(copy, size);
    exact = realloc(copy, size ? size : 1); /* so that a read behind the end is seen by ASan */
    LLVMFuzzerTestOneInput(exact ? exact : copy, size);
    free(exact ? exact : copy);
}

int main(int argc, char **argv)
{
    long executions = argc > 1 ? atol(argv[1]) : 10000;

    while (fuzz_count < FUZZ_SEEDS_MAX && fuzz_seed(fuzz_count, fuzz_seeds[fuzz_count], &fuzz_sizes[fuzz_count]))
        fuzz_count++;
    for (int i = 2; i < argc; i++)
        fuzz_read(argv[i]);
    for (int i = 0; i < fuzz_count; i++)
        LLVMFuzzerTestOneInput(fuzz_seeds[i], fuzz_sizes[i]);
    for (long run = 0; run < executions && fuzz_count; run++)
        fuzz_execute();
    printf("%ld executions from %d seeds\n", executions, fuzz_count);
    return 0;
}
#endif

#endif
