/* SPDX-License-Identifier: Apache-2.0
 *
 * cuInit and the calls that belong to no object.
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>
#include <string.h>

static void in_child(void)
{
    atomic_store(&sim.forked, true);
}

static void at_exit(void)
{
    atomic_store_explicit(&sim.exiting, true, memory_order_release); /* read in sim_enter */
}

CUresult sim_cuInit(unsigned int Flags)
{
    const char *loading;
    CUresult result;

    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&sim.forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (atomic_load(&sim.exiting))
        return CUDA_ERROR_DEINITIALIZED;
    SIM_GUARD;
    if (atomic_load(&sim.initialised))
        return CUDA_SUCCESS;
    result = sim_devices_create();
    if (result)
        return result;
    loading = getenv("CUDA_MODULE_LOADING");
    sim.eager = loading && strcmp(loading, "EAGER") == 0;
    sim_memory_init();
    sim_time_init();
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
    atomic_store_explicit(&sim.initialised, true, memory_order_release); /* read in sim_enter */
    return CUDA_SUCCESS;
}

int sim_driver_version(void)
{
    return sim_env_int("SIMCUDA_DRIVER_VERSION", 13000, 7000, 99999);
}

CUresult sim_cuDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = sim_driver_version();
    return CUDA_SUCCESS;
}

CUresult sim_cuGetErrorName(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    switch (error) {
#define RESULT_NAME(value, name, text)                                                                                 \
    case name:                                                                                                         \
        *pStr = #name;                                                                                                 \
        return CUDA_SUCCESS;
        CU_RESULTS(RESULT_NAME)
    }
    *pStr = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorString(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    switch (error) {
#define RESULT_TEXT(value, name, text)                                                                                 \
    case name:                                                                                                         \
        *pStr = text;                                                                                                  \
        return CUDA_SUCCESS;
        CU_RESULTS(RESULT_TEXT)
    }
    *pStr = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuProfilerStart(void)
{
    struct sim_ctx *ctx;

    SIM_GUARD;
    return sim_context(&ctx);
}

CUresult sim_cuProfilerStop(void)
{
    return sim_cuProfilerStart();
}

CUresult sim_cuProfilerInitialize(const char *configFile, const char *outputFile, CUoutput_mode outputMode)
{
    (void)configFile;
    (void)outputFile;
    (void)outputMode;
    return CUDA_ERROR_NOT_SUPPORTED; /* as the driver since CUDA 12 */
}

CUresult sim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = sim.eager ? 1 : 2;
    return CUDA_SUCCESS;
}

/* Private tables of NVIDIA's own libraries. Nothing is known that could be answered; see the note in procaddr.c. */
CUresult sim_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    static char keys[256];

    if (!ppExportTable || !pExportTableId)
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned char *b = (const unsigned char *)pExportTableId->bytes;
    sim_loud(&keys[b[0]],
             "cuGetExportTable: no table %02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    *ppExportTable = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
