/* SPDX-License-Identifier: Apache-2.0
 *
 * cuGetProcAddress: which exported symbol a name means for a program that knows a given CUDA version. versions.def is
 * made from NVIDIA's cudaTypedefs.h; the oracle test compares the answers with those of a real driver.
 *
 * A note on programs with the CUDA runtime linked in (nvcc's default): cudart 13 asks cuGetExportTable for the private
 * tables f8cff951, 6bd5fb6c and a094798c around cuInit and gives up without them; with tables of functions that only
 * answer "success" it reads all device attributes, calls one function of each of the latter two and then reports that
 * the driver is too old. What these functions must do is not documented, so such programs do not run here. Programs
 * that use the driver interface do, also those made with NVRTC, Numba or cuda-core (tests/simcuda_tests/clients).
 */
#include "tests/simcuda/sim.h"

#include <string.h>

/* The exported functions themselves: a program must get the ones with the tracing and failing around them. */
#define CU_ENTRY(symbol, cls, how, key, params) CUresult symbol CU_PARAMS(params);
#include "driver/entries.def"

static const struct version {
    const char *name;
    bool per_thread;
    int since;
    void *address;
} versions[] = {
#define SIM_VERSION(name, per_thread, since, symbol) {name, per_thread, since, (void *)symbol},
#include "tests/simcuda/versions.def"
};

static const struct version *newest(const char *name, int version, bool per_thread, bool *known)
{
    const struct version *best = NULL;
    int driver = sim_driver_version();

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        const struct version *v = &versions[i];

        if (v->per_thread != per_thread || strcmp(v->name, name) != 0 || v->since > driver)
            continue;
        *known = true;
        if (v->since <= version && (!best || v->since > best->since))
            best = v;
    }
    return best;
}

static void *find(const char *name, int version, cuuint64_t flags, bool *known)
{
    const struct version *found = NULL;

    *known = false;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        found = newest(name, version, true, known);
    if (!*known) /* a name with a per-thread form never means the other one */
        found = newest(name, version, false, known);
    return found ? found->address : NULL;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *symbolStatus)
{
    void *address;
    bool known;

    if (!symbol || !pfn || flags > 3 || cudaVersion > sim_driver_version())
        return CUDA_ERROR_INVALID_VALUE;
    address = find(symbol, cudaVersion, flags, &known);
    sim_note("%s %d %llu", symbol, cudaVersion, (unsigned long long)flags);
    *pfn = address;
    if (symbolStatus)
        *symbolStatus = address ? CU_GET_PROC_ADDRESS_SUCCESS
                        : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    void *address;
    bool known;

    if (!symbol || !pfn || flags > 3 || cudaVersion > sim_driver_version())
        return CUDA_ERROR_INVALID_VALUE;
    address = find(symbol, cudaVersion, flags, &known);
    sim_note("%s %d %llu", symbol, cudaVersion, (unsigned long long)flags);
    if (!address)
        return CUDA_ERROR_NOT_FOUND;
    *pfn = address;
    return CUDA_SUCCESS;
}
