/* SPDX-License-Identifier: Apache-2.0
 *
 * One wrapper for each AUTO row of entries.def: flush what the row's class says, call the driver, hand its answer on.
 * A row whose class and way are not in the list at the end does not compile.
 */
#include "shim/shim.h"

#define KEY_NONE ((struct stream_key){0})
#define KEY_STREAM(parameter) ((struct stream_key){parameter, false})
#define KEY_PTSTREAM(parameter) ((struct stream_key){(CUstream)(parameter), true})
#define KEY_EVENT(parameter) (parameter)

#define CALL_WITH(order, symbol, params)                                                                               \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real CU_ARGS(params);                                                                               \
        order;                                                                                                         \
        return order_result(real CU_ARGS(params));                                                                     \
    }

#define WRAP_LANE_AUTO(symbol, key, params) CALL_WITH(order_stream(KEY_##key, CU_ID_##symbol), symbol, params)
#define WRAP_EVENT_AUTO(symbol, key, params) CALL_WITH(order_event(KEY_##key, CU_ID_##symbol), symbol, params)
#define WRAP_CONTEXT_AUTO(symbol, key, params) CALL_WITH(order_context(NULL, CU_ID_##symbol), symbol, params)
#define WRAP_ALL_AUTO(symbol, key, params) CALL_WITH(order_all(CU_ID_##symbol), symbol, params)

/* Written by hand elsewhere, or not wrapped at all. */
#define WRAP_ANSWER_AUTO(symbol, key, params)
#define WRAP_ANSWER_HAND(symbol, key, params)
#define WRAP_QUEUE_HAND(symbol, key, params)
#define WRAP_LAUNCH_HAND(symbol, key, params)
#define WRAP_LANE_HAND(symbol, key, params)
#define WRAP_EVENT_HAND(symbol, key, params)
#define WRAP_CONTEXT_HAND(symbol, key, params)
#define WRAP_ALL_HAND(symbol, key, params)

#define CU_ENTRY(symbol, cls, how, key, params) WRAP_##cls##_##how(symbol, key, params)
#include "driver/entries.def"
