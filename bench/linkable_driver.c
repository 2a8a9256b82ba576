/* SPDX-License-Identifier: Apache-2.0
 *
 * Something to link against that calls itself libcuda.so.1 and has its names, for machines without a driver or toolkit.
 * It is given to the linker only and never loaded: programs find the machine's own libcuda.so.1 when they start.
 */
#include "driver/driver.h"

#define CU_ENTRY(symbol, cls, how, key, params)                                                                        \
    CUresult symbol CU_PARAMS(params);                                                                                 \
    CUresult symbol CU_PARAMS(params)                                                                                  \
    {                                                                                                                  \
        CU_UNUSED(params);                                                                                             \
        return CUDA_ERROR_STUB_LIBRARY;                                                                                \
    }
#include "driver/entries.def"
