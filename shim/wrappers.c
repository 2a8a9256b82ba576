/* SPDX-License-Identifier: Apache-2.0
 *
 * One wrapper for each AUTO row of entries.def: flush what the row's class says, call the driver, hand its answer on.
 * A row whose class and way are not in the list at the end does not compile.
 */
#include "shim/shim.h"

#define KEY_NONE ((struct stream_key){0})
#define KEY_STREAM STREAM_PLAIN
#define KEY_PTSTREAM STREAM_PTSZ
#define KEY_EVENT(parameter) (parameter)

#define WRAP_LANE_AUTO(symbol, key, params) WRAP_BEFORE(symbol, order_stream(KEY_##key, CU_ID_##symbol), params)
#define WRAP_EVENT_AUTO(symbol, key, params) WRAP_BEFORE(symbol, order_event(KEY_##key, CU_ID_##symbol), params)
#define WRAP_CONTEXT_AUTO(symbol, key, params) WRAP_BEFORE(symbol, IN_CONTEXT(symbol), params)
#define WRAP_ALL_AUTO(symbol, key, params) WRAP_BEFORE(symbol, order_all(CU_ID_##symbol), params)

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
