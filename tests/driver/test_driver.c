/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of entry points as C sees it: names, numbers, pointers, and the forms that params.h makes of a row.
 */
#include "driver/driver.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

Test(entry_find, finds_every_entry_by_its_name)
{
    for (int i = 0; i < CU_ENTRY_COUNT; i++)
        cr_assert(eq(int, cu_entry_find(cu_entry_name(i)), i));
}

Test(entry_find, knows_each_version_and_suffix_apart)
{
    cr_assert(eq(int, cu_entry_find("cuMemAlloc"), CU_ID_cuMemAlloc));
    cr_assert(eq(int, cu_entry_find("cuMemAlloc_v2"), CU_ID_cuMemAlloc_v2));
    cr_assert(eq(int, cu_entry_find("cuLaunchKernel"), CU_ID_cuLaunchKernel));
    cr_assert(eq(int, cu_entry_find("cuLaunchKernel_ptsz"), CU_ID_cuLaunchKernel_ptsz));
}

Test(entry_find, refuses_what_is_no_entry)
{
    const char *const strange[] = {
        "", "cu", "cuLaunchKerne", "cuLaunchKernel_", "culaunchkernel", "cudaLaunchKernel", "dlsym"};

    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
        cr_assert(eq(int, cu_entry_find(strange[i]), -ENOENT), "%s", strange[i]);
}

/* A driver in which every third symbol is missing. The address of a name stands for the function. */
struct asked {
    int count;
    char missing[CU_ENTRY_COUNT];
};

static void *lookup_two_of_three(void *arg, const char *symbol)
{
    struct asked *asked = arg;
    int entry = cu_entry_find(symbol);

    cr_assert(eq(int, entry, asked->count), "asked in the order of the table");
    asked->count++;
    if (entry % 3 == 0) {
        asked->missing[entry] = 1;
        return NULL;
    }
    return (void *)symbol;
}

Test(driver_fill, asks_for_each_symbol_once_and_keeps_what_is_missing_null)
{
    static struct cu_driver driver;
    struct asked asked = {0};
    void **slots = (void **)&driver;
    int missing = 0;

    memset(&driver, 0xff, sizeof(driver));
    int found = cu_driver_fill(&driver, lookup_two_of_three, &asked);

    cr_assert(eq(int, asked.count, CU_ENTRY_COUNT));
    for (int i = 0; i < CU_ENTRY_COUNT; i++) {
        cr_assert(eq(ptr, slots[i], asked.missing[i] ? NULL : (void *)cu_entry_name(i)), "%s", cu_entry_name(i));
        missing += asked.missing[i];
    }
    cr_assert(eq(int, found, CU_ENTRY_COUNT - missing));
    cr_assert(missing > 0);
}

static void *lookup_by_name(void *arg, const char *symbol)
{
    return (void *)symbol;
}

Test(driver_fill, puts_each_pointer_into_the_member_of_its_name)
{
    static struct cu_driver driver;

    cr_assert(eq(int, cu_driver_fill(&driver, lookup_by_name, NULL), CU_ENTRY_COUNT));
#define CU_ENTRY(symbol, cls, how, key, params) cr_assert(eq(str, (char *)driver.symbol, #symbol));
#include "driver/entries.def"
}

Test(result_name, names_the_codes_of_the_table)
{
    cr_assert(eq(str, (char *)cu_result_name(CUDA_SUCCESS), "CUDA_SUCCESS"));
    cr_assert(eq(str, (char *)cu_result_name(CUDA_ERROR_ILLEGAL_ADDRESS), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    cr_assert(eq(str, (char *)cu_result_name((CUresult)999), "CUDA_ERROR_UNKNOWN"));
}

Test(result_name, has_a_word_for_codes_that_it_does_not_know)
{
    cr_assert(eq(str, (char *)cu_result_name((CUresult)12345), "CUDA_ERROR_?"));
    cr_assert(eq(str, (char *)cu_result_name((CUresult)-1), "CUDA_ERROR_?"));
}

/* Each form of params.h, from no parameter to the longest call of the table, with values that tell the order. */
#define NO_PARAMETER P0()
#define THREE P3(int, a, const char *, b, double, c)
#define SIXTEEN                                                                                                        \
    P16(int, a, int, b, int, c, int, d, int, e, int, f, int, g, int, h, int, i, int, j, int, k, int, l, int, m, int,   \
        n, int, o, int, p)

static int seen_a;
static const char *seen_b;
static double seen_c;

static int callee_none CU_PARAMS(NO_PARAMETER)
{
    return 7;
}

static int callee_three CU_PARAMS(THREE)
{
    seen_a = a;
    seen_b = b;
    seen_c = c;
    return 3;
}

static long callee_sixteen CU_PARAMS(SIXTEEN)
{
    const int digits[] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
    long value = 0;

    for (int at = 0; at < 16; at++)
        value = value * 17 % 1000003 + digits[at];
    return value;
}

static int forward_none CU_PARAMS(NO_PARAMETER)
{
    return callee_none CU_ARGS(NO_PARAMETER);
}

static int forward_three CU_PARAMS(THREE)
{
    return callee_three CU_ARGS(THREE);
}

static long forward_sixteen CU_PARAMS(SIXTEEN)
{
    return callee_sixteen CU_ARGS(SIXTEEN);
}

struct held_three {
    CU_FIELDS(THREE)
};
struct held_sixteen {
    CU_FIELDS(SIXTEEN)
};

static int hold_and_call_three CU_PARAMS(THREE)
{
    struct held_three held = {CU_STORE(THREE)};
    const struct held_three *call = &held;

    return callee_three CU_FROM_CALL(THREE);
}

static long hold_and_call_sixteen CU_PARAMS(SIXTEEN)
{
    struct held_sixteen held = {CU_STORE(SIXTEEN)};
    const struct held_sixteen *call = &held;

    return callee_sixteen CU_FROM_CALL(SIXTEEN);
}

Test(params, forwarding_keeps_every_argument_in_its_place)
{
    int(*three) CU_TYPES(THREE) = forward_three;

    cr_assert(eq(int, forward_none(), 7));
    cr_assert(eq(int, three(1, "two", 3.0), 3));
    cr_assert(seen_a == 1 && strcmp(seen_b, "two") == 0 && seen_c == 3.0);
    cr_assert(eq(long, forward_sixteen(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
                 callee_sixteen(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)));
}

Test(params, a_stored_call_is_made_with_what_was_stored)
{
    cr_assert(eq(int, hold_and_call_three(4, "five", 6.0), 3));
    cr_assert(seen_a == 4 && strcmp(seen_b, "five") == 0 && seen_c == 6.0);
    cr_assert(eq(long, hold_and_call_sixteen(16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1),
                 callee_sixteen(16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)));
}
