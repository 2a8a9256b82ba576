/* SPDX-License-Identifier: Apache-2.0
 *
 * driver/: the CUDA driver as coissue sees it.
 *
 * cuda_api.h declares types, entries.def lists the entry points, params.h turns a row into C. This header adds the
 * structure of function pointers through which all of coissue calls the driver: the real libcuda.so.1, or the
 * simulated one, which is a libcuda.so.1 too. Nobody in coissue calls a cu* function by its name: in a process with the
 * preload that would be our own wrapper.
 *
 * Any pointer may be NULL: older drivers lack entry points. Whoever needs one asks first.
 *
 * This folder may depend on nothing. It allocates nothing, logs nothing and never loads a library.
 */
#ifndef COISSUE_DRIVER_DRIVER_H
#define COISSUE_DRIVER_DRIVER_H

#include "driver/cuda_api.h"
#include "driver/params.h"

/* A number for each entry point: the index of its name and of its pointer. */
enum cu_entry {
#define CU_ENTRY(symbol, cls, how, key, params) CU_ID_##symbol,
#include "driver/entries.def"
    CU_ENTRY_COUNT
};

struct cu_driver {
#define CU_ENTRY(symbol, cls, how, key, params) CUresult(*symbol) CU_TYPES(params);
#include "driver/entries.def"
};

/* The symbol's name, with its version and stream suffix. `entry` must be below CU_ENTRY_COUNT. */
const char *cu_entry_name(enum cu_entry entry);

/* The entry of a symbol, or -ENOENT. Safe at any time, in any thread; no allocation. */
int cu_entry_find(const char *symbol);

/* Fills `driver` by asking `lookup` for each symbol. A NULL answer stays NULL. Returns how many were found. */
typedef void *(*cu_lookup_fn)(void *arg, const char *symbol);
int cu_driver_fill(struct cu_driver *driver, cu_lookup_fn lookup, void *arg);

/* "CUDA_ERROR_INVALID_VALUE" for 1; "CUDA_ERROR_?" for a code that cuda_api.h does not list. Never NULL. */
const char *cu_result_name(CUresult result);

#endif
