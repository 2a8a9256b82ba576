/* SPDX-License-Identifier: Apache-2.0
 *
 * A weak sim_<symbol> for each row of driver/entries.def. Where another file defines the function, the linker takes
 * that one; what is left here is either a _ptsz/_ptds twin, which calls its base, or an entry that the simulated device
 * does not have, which says so.
 */
#include "tests/simcuda/sim.h"

#include <string.h>

#define CU_ENTRY(symbol, cls, how, key, params)                                                                        \
    __attribute__((weak)) CUresult sim_##symbol CU_PARAMS(params)                                                      \
    {                                                                                                                  \
        void *base = sim_base_implementation(CU_ID_##symbol);                                                          \
                                                                                                                       \
        CU_UNUSED(params)                                                                                              \
        if (base)                                                                                                      \
            return ((CUresult(*) CU_TYPES(params))base)CU_ARGS(params);                                                \
        return sim_not_implemented(CU_ID_##symbol);                                                                    \
    }
#include "driver/entries.def"

static void *const implementations[CU_ENTRY_COUNT] = {
#define CU_ENTRY(symbol, cls, how, key, params) [CU_ID_##symbol] = (void *)sim_##symbol,
#include "driver/entries.def"
};

/* -1: not yet looked up; else the base entry, with the top bit for "is a per-thread twin". */
static _Atomic int base_of[CU_ENTRY_COUNT];
enum { KNOWN = 1 << 20, TWIN = 1 << 21 };

enum cu_entry sim_base_entry(enum cu_entry entry, bool *per_thread)
{
    int known = atomic_load_explicit(&base_of[entry], memory_order_relaxed);

    if (!(known & KNOWN)) {
        const char *name = cu_entry_name(entry);
        size_t length = strlen(name);
        char base[96];
        int found;

        known = KNOWN | (int)entry;
        if (length > 5 && length < sizeof(base) &&
            (strcmp(name + length - 5, "_ptsz") == 0 || strcmp(name + length - 5, "_ptds") == 0)) {
            memcpy(base, name, length - 5);
            base[length - 5] = '\0';
            found = cu_entry_find(base);
            known = KNOWN | TWIN | (found >= 0 ? found : (int)entry);
        }
        /* Idempotent: every thread computes the same value, so relaxed is enough. */
        atomic_store_explicit(&base_of[entry], known, memory_order_relaxed);
    }
    *per_thread = known & TWIN;
    return (enum cu_entry)(known & (KNOWN - 1));
}

void *sim_base_implementation(enum cu_entry entry)
{
    bool per_thread;
    enum cu_entry base = sim_base_entry(entry, &per_thread);

    return base == entry ? NULL : implementations[base];
}

CUresult sim_not_implemented(enum cu_entry entry)
{
    sim_loud(cu_entry_name(entry), "%s is not implemented", cu_entry_name(entry));
    return CUDA_ERROR_NOT_SUPPORTED;
}
