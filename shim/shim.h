/* SPDX-License-Identifier: Apache-2.0
 *
 * shim/: what is loaded into other people's processes.
 *
 *   hooks.c    how callers reach us: dlsym, cuGetProcAddress, and the names we export
 *   entry_x86_64.S  the parts of that which C cannot say
 *   wrappers.c one wrapper for each AUTO row of entries.def, made by the preprocessor
 *   launch.c   kernel launches: hold them, or say why not
 *   order.c    what must be flushed before a call may reach the driver
 *   events.c, streams.c, contexts.c, modules.c, memory.c, copies.c, allocations.c   the HAND rows
 *   remote.h   the client side of the broker: connection, launches, falling back, memory that both have
 *   start.c    cuInit, modes, fork, exit, falling back
 *
 * Invariants
 *  1. Nothing happens before cuInit succeeds: no thread, no file, no output, no memory but our own data segment.
 *  2. A process in which we do nothing calls the driver as if we were not there. That is the state of `words`: all zero
 *     before cuInit, with COISSUE_MODE=off, after exit began, after the last fall-back, and in the child of a fork,
 *     where the kernel itself wipes the page (MADV_WIPEONFORK), so that also a raw clone() is covered.
 *  3. Default is not to hold. A launch is held only if everything about it is known to be plain.
 *  4. Errors of the driver reach the program as the driver gave them. We never invent a CUresult, except that a launch
 *     which was held and then refused is reported by the next call on its context, as the driver does for faults.
 *  5. No exit, no abort, no stdout, no lock shared by launching threads, no system call or allocation in the launch
 *     path (docs/performance.md lists the functions that this means).
 *
 * It needs libc at load time and nothing else, and finds the driver when the program has loaded it.
 */
#ifndef COISSUE_SHIM_SHIM_H
#define COISSUE_SHIM_SHIM_H

#include "base/config.h"
#include "driver/driver.h"
#include "engine/engine.h"
#include "engine/lane.h"

#include <stdbool.h>

#define SHIM_EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The driver's functions as this library defines them: our wrappers, never to be called from in here. */
#define CU_ENTRY(symbol, cls, how, key, params) extern CUresult symbol CU_PARAMS(params);
#include "driver/entries.def"

/* The page that is zero in a child of fork. */
struct shim_words {
    _Atomic uint32_t mode;   /* enum config_mode; what launches look at */
    _Atomic uint32_t active; /* there is an engine, so calls have an order to keep */
    _Atomic uint32_t shared; /* there is memory of remote_memory.c: frees look there, also when we do nothing else */
};
extern struct shim_words *const shim_words;

/* The real driver. Entries are NULL until shim_bind() found the library, and for what it lacks. */
extern struct cu_driver shim_driver;
extern struct engine *shim_engine; /* set before `active`, never freed */
extern struct trace *shim_trace;   /* likewise */
extern struct config shim_config;
extern bool shim_tracing;
extern bool shim_blocking; /* CUDA_LAUNCH_BLOCKING */

static inline uint32_t shim_mode(void)
{
    return atomic_load_explicit(&shim_words->mode, memory_order_relaxed);
}

/* Acquire: pairs with the release in shim_start, which sets shim_engine first. */
static inline bool shim_active(void)
{
    return atomic_load_explicit(&shim_words->active, memory_order_acquire) != 0;
}

/* --- hooks.c --- */

/* Finds the loaded driver and fills shim_driver. Any thread, any number of times. False if there is no driver yet. */
bool shim_bind(void);

/* For wrappers called before anything bound: the real function of an entry, or NULL. */
void *shim_real_late(enum cu_entry entry);

/* What a wrapper answers when there is no driver to ask. */
#define SHIM_NO_DRIVER CUDA_ERROR_NO_DEVICE

#define shim_real(symbol)                                                                                              \
    (likely(shim_driver.symbol) ? shim_driver.symbol : (typeof(shim_driver.symbol))shim_real_late(CU_ID_##symbol))

/* The wrapper of an entry, or NULL for entries that need none. */
void *shim_wrapper(enum cu_entry entry);

/* --- order.c --- */

/* A stream parameter together with the meaning that its entry point gives to 0. */
struct stream_key {
    CUstream stream;
    bool zero_is_mine; /* _ptsz: stream 0 is the calling thread's own */
};

#define STREAM_PLAIN(stream) ((struct stream_key){stream, false})
#define STREAM_PTSZ(stream) ((struct stream_key){(CUstream)(stream), true})

static inline bool stream_is_per_thread(struct stream_key key)
{
    return key.stream == CU_STREAM_PER_THREAD || (key.zero_is_mine && key.stream == NULL);
}

static inline bool stream_is_legacy(struct stream_key key)
{
    return key.stream == CU_STREAM_LEGACY || (!key.zero_is_mine && key.stream == NULL);
}

CUcontext order_current_context(void);

/* Flushes whatever a call on this stream must not overtake. `entry` names the call in traces. */
void order_stream(struct stream_key key, enum cu_entry entry);
/* The same if the lane and context are known: only what the null stream orders around `lane`, not the lane itself. */
void order_around(struct lane *lane);
void order_event(CUevent event, enum cu_entry entry);
void order_context(CUcontext context, enum cu_entry entry); /* NULL: the calling thread's current one */
void order_all(enum cu_entry entry);

/*
 * The body that most wrappers have: what `before` does (it may also return), the driver's call, and `after` if the
 * driver took it. `answer` is order_result for calls that hand on errors of held launches, which those of class ANSWER
 * do not. All may use the parameters.
 */
#define WRAP_AROUND(symbol, before, answer, after, params)                                                             \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
        CUresult result;                                                                                               \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real CU_ARGS(params);                                                                               \
        before;                                                                                                        \
        result = real CU_ARGS(params);                                                                                 \
        if (result == CUDA_SUCCESS) {                                                                                  \
            after;                                                                                                     \
        }                                                                                                              \
        return answer(result);                                                                                         \
    }
#define WRAP_BEFORE(symbol, before, params) WRAP_AROUND(symbol, before, order_result, , params)
/* What goes before a call of class CONTEXT. */
#define IN_CONTEXT(symbol) order_context(NULL, CU_ID_##symbol)

/* Turns what the driver answered into what the program gets: an error that was latched comes out on top of success. */
CUresult order_result(CUresult result);

/*
 * Events. A record may wait in a lane, or stand for a count of a remote lane; then the driver has not heard of it, and
 * order_event makes a real one of it, later in the stream, for calls that need that.
 */
struct remote_lane;
bool event_record_remote(CUevent event, struct stream_key key); /* false: record it otherwise */
/* The last record stands for a count of a remote lane. */
bool event_is_remote(CUevent event, struct remote_lane **lane, uint64_t *count);
/* Where the last record of an event is queued, if it still is. -ENOSPC: too many events. */
int event_note(CUevent event, const struct lane *lane, uint64_t token);
void event_forget(CUevent event);
/* Made, with flags: whether it carries times and other processes' handles decides how it may be recorded. */
void event_created(CUevent event, unsigned int flags);
void event_destroyed(CUevent event);
/* The event was recorded in the calling thread's context by a call that the driver answered, so its handle is good. */
bool event_was_recorded(CUevent event);

/* --- launch.c --- */

/* Cheap first look at whether a call on this stream could be queued at all: mode, captures, and a lane that holds. */
bool launch_op_may_wait(struct stream_key key);

/* See struct record. */
typedef CUresult (*launch_op_fn)(const struct cu_driver *driver, const void *arguments, CUstream away);

/* Queues `arguments` for `issue` in the lane of `key`. False if it must be called directly, after order_stream. */
bool launch_queue_op(struct stream_key key, launch_op_fn issue, const char *name, const void *arguments, uint32_t bytes,
                     CUevent event);

/* --- start.c --- */

void shim_start(void);
/* Engine's complaint: one step towards the plain driver. */
void shim_fall_back(const char *what, CUresult result);
/* True if the environment says that we are not wanted at all. Reads it once. */
bool shim_disabled(void);

#endif
