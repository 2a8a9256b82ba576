/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles only if every row of entries.def has exactly the type that cuda.h gives the function of that name. Never
 * linked or run; entries-match-cuda-h.sh compiles it.
 */
#define COISSUE_WITH_REAL_CUDA_H
#include "driver/cuda_api.h"
#include "driver/params.h"

/* A pointer initialised from the header's declaration: a missing function and a wrong type are errors. */
#define CU_ENTRY(symbol, cls, how, key, params) CUresult(*const check_##symbol) CU_TYPES(params) = symbol;
#include "driver/entries.def"
