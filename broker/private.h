/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of broker/ know of each other. See broker.h for threads and locks.
 */
#ifndef COISSUE_BROKER_PRIVATE_H
#define COISSUE_BROKER_PRIVATE_H

#include "base/lock.h"
#include "base/thread.h"
#include "broker/broker.h"
#include "driver/driver.h"
#include "engine/engine.h"
#include "engine/function.h"
#include "engine/lane.h"
#include "wire/area.h"
#include "wire/message.h"
#include "wire/record.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SESSIONS_MAX = 64,
    FUNCTIONS_MAX = 65536, /* of one client: what its table of numbers holds (shim/remote.h) */
    RANGES_MAX = 16384,    /* of one client */
};

/*
 * Addresses of clients: a slot each. Far from where programs, their libraries and the driver put things; the driver
 * grants reservations of this size at any multiple of it there (docs/decisions.md).
 */
#define SLOT_FIRST UINT64_C(0x440000000000)
#define SLOT_BYTES (UINT64_C(256) << 30)

struct code_image;

struct range {
    uint64_t base, bytes;
    CUmemGenericAllocationHandle handle; /* of device memory; 0: host memory */
};

struct session_lane {
    struct lane *lane; /* NULL: not in use */
    CUstream stream;
    struct ring ring;
    uint64_t taken;     /* as published */
    uint64_t base;      /* `taken` when this life of the lane began: the engine counts from there */
    uint64_t completed; /* as published */
    uint64_t since_ns;  /* when somebody began to wait and nothing was complete since */
};

struct session {
    struct worker *worker;
    uint32_t slot;
    int socket;
    pid_t pid;
    char name[32];
    struct thread thread;
    struct session *next; /* of worker->ever */
    struct wire_area *area;
    CUdeviceptr area_on_device;
    struct sched_lane_attr attr;
    bool reserved; /* its addresses */

    /* Read by the device thread under worker->lock, written under it by the session's. */
    bool fed;    /* the device thread looks at it */
    bool closed; /* but takes nothing more: the broker leaves */
    struct session_lane lane[WIRE_LANES];
    struct range *ranges; /* by address */
    uint32_t range_count;
    const struct function **functions; /* by number */
    uint32_t function_count;

    /* The device thread only. */
    uint32_t pending;             /* lanes to look at again */
    uint32_t active;              /* lanes with something taken and not complete */
    _Atomic(const char *) broken; /* why the device thread gave it up; NULL: it did not */
};

struct worker {
    const struct broker_options *options;
    struct cu_driver driver;
    struct engine *engine;
    struct trace *trace;
    CUdevice device;
    CUcontext context;
    uint8_t uuid[16];
    int version; /* of the driver */
    unsigned capability;
    int listener, doorbell, signals;
    _Atomic uint32_t fault;    /* CUresult by which the context is lost */
    _Atomic uint64_t round_ns; /* when the device thread began its last round; UINT64_MAX: it sleeps */

    struct lock lock;
    struct session *sessions[SESSIONS_MAX];
    struct session *ever; /* all whose memory is still there. The main thread's */

    struct lock code_lock; /* for what code.c has; over driver calls, but never with `lock` */
    struct code_image *images;
    uint32_t image_count;
    uint64_t image_bytes;
};

/* A slot's session if the device thread looks at it, else NULL. Needs worker->lock. */
static inline struct session *fed_session(const struct worker *worker, uint32_t slot)
{
    struct session *session = worker->sessions[slot];

    return session && session->fed ? session : NULL;
}

/* --- session.c --- */

/* Takes a connection over; the session's thread ends it. */
void session_start(struct worker *worker, int socket, pid_t pid);

/* Frees those whose threads have ended. The main thread. */
void sessions_reap(struct worker *worker);

/* Something is wrong with what the client does: it is said once, and the connection ends. Any thread. */
void session_give_up(struct session *session, const char *why);

/* --- memory.c --- */

/* -errno, and text for the client. Takes `fd` over. */
int memory_share(struct session *session, const struct wire_request *request, int fd, char *text, size_t size);
int memory_forget(struct session *session, uint64_t base, uint64_t bytes);
void memory_forget_all(struct session *session);

/* All bytes lie in one range. Needs worker->lock. */
bool memory_holds(const struct session *session, uint64_t begin, uint64_t bytes);

/* --- code.c --- */

/* The number of an image, or -ENOENT; -EINVAL. */
int64_t code_known(struct worker *worker, const struct wire_request *request);
/* Takes it in. Takes `fd` over. The number, or -errno. */
int64_t code_take(struct worker *worker, const struct wire_request *request, int fd);
/* The kernel as a function of the engine. The context is current. -errno, and text for the client. */
int code_function(struct worker *worker, const struct wire_request *request, const struct function **function,
                  char *text, size_t size);

/* --- feed.c --- */

bool feed_round(void *argument, uint64_t now_ns); /* `argument`: the worker */
void feed_sleep(void *argument);
void feed_wake(void *argument);

/* --- check.c --- */

/*
 * Why a record of `bytes` bytes, in memory of ours, cannot be issued; NULL: it can. Needs worker->lock. A pointer to
 * constant text.
 */
const char *record_fault(const struct session *session, const struct wire_record *record, uint32_t bytes);

#endif
