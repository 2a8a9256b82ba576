/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/driver.h"

#include <errno.h>
#include <string.h>

static const char *const entry_names[CU_ENTRY_COUNT] = {
#define CU_ENTRY(symbol, cls, how, key, params) [CU_ID_##symbol] = #symbol,
#include "driver/entries.def"
};

const char *cu_entry_name(enum cu_entry entry)
{
    return entry_names[entry];
}

int cu_entry_find(const char *symbol)
{
    /* A linear search of 640 names costs about a microsecond. Programs look each name up a few times in their life. */
    for (int i = 0; i < CU_ENTRY_COUNT; i++)
        if (strcmp(entry_names[i], symbol) == 0)
            return i;
    return -ENOENT;
}

int cu_driver_fill(struct cu_driver *driver, cu_lookup_fn lookup, void *arg)
{
    void **slots = (void **)driver; /* all members are function pointers, in the order of the table */
    int found = 0;

    _Static_assert(sizeof(*driver) == CU_ENTRY_COUNT * sizeof(void *), "a pointer for each entry");
    for (int i = 0; i < CU_ENTRY_COUNT; i++) {
        void *address = lookup(arg, entry_names[i]);

        /* Atomic because threads may fill the same structure with the same values at the same time. */
        __atomic_store_n(&slots[i], address, __ATOMIC_RELAXED);
        found += address != NULL;
    }
    return found;
}

const char *cu_result_name(CUresult result)
{
    switch (result) {
#define CU_RESULT_NAME(value, name, text)                                                                              \
    case name:                                                                                                         \
        return #name;
        CU_RESULTS(CU_RESULT_NAME)
#undef CU_RESULT_NAME
    }
    return "CUDA_ERROR_?";
}
