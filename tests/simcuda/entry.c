/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported symbols: one for each row of driver/entries.def, under its exact name and with its exact type.
 */
#include "tests/simcuda/sim.h"

#define EXPORT __attribute__((visibility("default")))

/* cuda_api.h has no prototypes on purpose (nobody in coissue calls a driver function by its name), so here they are. */
#define CU_ENTRY(symbol, cls, how, key, params) EXPORT CUresult symbol CU_PARAMS(params);
#include "driver/entries.def"

#define CU_ENTRY(symbol, cls, how, key, params)                                                                        \
    CUresult symbol CU_PARAMS(params)                                                                                  \
    {                                                                                                                  \
        struct sim_call call_;                                                                                         \
        CUresult result_;                                                                                              \
                                                                                                                       \
        if (sim_enter(&call_, CU_ID_##symbol, &result_))                                                               \
            result_ = sim_##symbol CU_ARGS(params);                                                                    \
        return sim_leave(&call_, CU_ID_##symbol, result_);                                                             \
    }
#include "driver/entries.def"
