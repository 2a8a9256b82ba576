/* SPDX-License-Identifier: Apache-2.0
 *
 * The client side of the broker: launches of this process that another process makes.
 *
 * A device whose broker answered when the program first asked for memory or launched there is remote: it has a
 * connection, an area (wire/area.h) and addresses for memory that both processes have. A lane of such a device is
 * remote too. Its launches go to the broker if the kernel can run there and all memory that the process could name in
 * them is shared; all else goes home, into the program's own stream, on the calling thread.
 *
 * Order between home and broker, for each lane:
 *   home after broker  the home stream waits, on the device, for the lane's `done` word (remote_settle); a call that
 *                      blocks anyway waits for it on the host first (remote_await), and then home need not.
 *   broker after home  the home stream writes the lane's `home` word behind its work, and a WAIT_HOME goes into the
 *                      ring before the next record. A lane knows whether home may have work.
 *
 * Fall back. If the broker is gone or hangs, the device is remote no more, and launches go home. Records that the
 * broker has not taken are issued at home, in order (remote_lose.c). If one was taken and is not known to be complete,
 * it may have run in part: then the program gets an error from then on, as of a device that failed. Memory is the
 * program's own and stays. A broker that is there again later is connected anew.
 *
 * Files: remote.c connection; remote_launch.c records and order; remote_lose.c falling back; remote_memory.c
 * allocations.
 *
 * The launch path takes no lock. A thread that puts a record into a ring counts itself in `pushers` and then looks at
 * `state`; who falls back sets `state` and then waits for the pushers. Both seq_cst, so no record is put into a ring
 * after it was read for the last time.
 */
#ifndef COISSUE_SHIM_REMOTE_H
#define COISSUE_SHIM_REMOTE_H

#include "shim/shim.h"
#include "wire/area.h"
#include "wire/message.h"
#include "wire/record.h"

enum { REMOTE_FUNCTIONS_MAX = 65536 };

enum remote_state {
    REMOTE_NEW,    /* being set up: not seen by launches */
    REMOTE_ALIVE,  /* records may be pushed */
    REMOTE_LOSING, /* what the broker did not take is being issued at home */
    REMOTE_DEAD,   /* for ever: another connection is another struct remote */
};

struct remote_lane {
    struct remote *remote;
    const struct lane *lane; /* NULL: not in use. Needs remote->calls */
    struct ring ring;
    uint32_t number; /* in the area */
    _Atomic uint32_t pushers;
    /*
     * Work records in the ring, or about to be: raised before the ring is reserved. So a thread that reads it after
     * its own push waits for its own record, whatever others push at the same time.
     */
    _Atomic uint64_t sent;
    _Atomic uint64_t settled; /* home waits for all up to this count */
    /* Raised around each call that may work at home; and what it was at the last fence. Different: home is dirty. */
    _Atomic uint32_t worked, fenced;
    struct lock fence;                   /* the order of values of the home word */
    uint32_t home;                       /* the last of them. Needs `fence` */
    _Atomic uint64_t behind[WIRE_LANES]; /* what comes next here comes behind that count of the other lane */
};

struct remote {
    CUdevice device;
    unsigned capability;    /* 90: 9.0 */
    _Atomic uint32_t state; /* enum remote_state */
    int socket, doorbell;
    struct lock calls; /* one request at a time, and everything that says so */
    struct wire_area *area;
    CUdeviceptr area_on_device; /* where the first wire_area_words() bytes are for this process's devices */
    uint64_t base, bytes;       /* addresses for shared memory */
    uint32_t epoch;             /* which connection of this process: functions are numbered anew with each */
    struct remote_lane lane[WIRE_LANES];
    struct lock slot[WIRE_SLOTS];
    CUfunction *functions; /* by the broker's number; REMOTE_FUNCTIONS_MAX of them */
    char refusal[256];     /* why it could not be set up */
    struct remote *before; /* the connection before this one; its area is unmapped with the next */
};

static inline bool remote_is_alive(const struct remote *remote)
{
    return atomic_load_explicit(&((struct remote *)remote)->state, memory_order_acquire) == REMOTE_ALIVE;
}

/* --- remote.c --- */

/*
 * The remote of a device, connected on the first call if there is a broker, or again if it was lost and is back; NULL:
 * none now, launches are local. Takes locks, and makes driver calls in the current context.
 */
struct remote *remote_of(CUdevice device);

/* The same for the device of the calling thread's current context. */
struct remote *remote_current(void);

/*
 * Sends a request and waits for the reply; `fds` (count of them, -1 allowed) go with it and stay the caller's. Returns
 * reply->error. A broker that does not answer within REQUEST_NS is lost: -ECONNRESET.
 */
int remote_request(struct remote *remote, struct wire_request *request, const int *fds, size_t count,
                   struct wire_reply *reply);

/*
 * Is the broker still there? For who waits for it, now and then; `since_ns`: when the wait began. False: it was lost,
 * and what follows from that is done.
 */
bool remote_is_well(struct remote *remote, uint64_t since_ns);

/* Takes the lane up with the broker; NULL: there is no room for it, or it is not to be had. */
struct remote_lane *remote_lane_begin(struct remote *remote, struct lane *lane);

/* Its stream goes away. All that was sent is waited for. */
void remote_lane_end(struct lane *lane);
void remote_context_ends(CUcontext context); /* all lanes of it */

/* The broker's number of a function, or -1: it cannot run there. Asks the broker the first time. */
int64_t remote_function(struct remote *remote, const struct function *function);

/* Waits until all that was sent is complete, in all lanes of the device. False: the broker was lost meanwhile. */
bool remote_drain(struct remote *remote);

/* The process ends: what was sent is taken by the broker, which finishes it. Waits no longer than that. */
void remote_exit(uint64_t limit_ns);

/* --- remote_lose.c --- */

/* Falls back, for the reason given; returns when launches may go home. Any number of times, from any thread. */
void remote_lose(struct remote *remote, const char *why);

/* There is, or was, a remote: other calls than launches must ask. Set once, before the first lane is remote. */
extern bool remote_used;

/* What every call of the program returns from now on, CUDA_SUCCESS: nothing. Set when work may have run in part. */
extern _Atomic uint32_t remote_broken;

/* --- remote_memory.c --- */

/* The bytes lie whole in one shared allocation. Any thread, no system call. */
bool remote_memory_holds(const struct remote *remote, uint64_t begin, uint64_t bytes);

/*
 * Nothing is alive that kernels of this process may reach and that the broker cannot (remote_private.h). While there is
 * such a thing, launches go home. Any thread, no system call.
 */
bool remote_memory_all_shared(const struct remote *remote);

/*
 * Gives all shared memory of the device to a new broker. -EADDRNOTAVAIL: its addresses are not in the range that this
 * one has; else what the broker says. The lanes must have nothing in flight.
 */
int remote_memory_share_again(struct remote *remote);

/*
 * A context is about to end, or has ended: its shared memory goes, and its private things are counted no more. Waits
 * for the broker, and for the context if it can.
 */
void remote_memory_context_ends(CUcontext context);

/* The primary context of a device if it is active and has anything that the above would concern; else NULL. */
CUcontext remote_memory_primary(CUdevice device);

/* --- remote_launch.c --- */

struct launch;
struct arguments;

/* The lane's remote side, or NULL: it is local. Connects, now and then, and makes driver calls then. */
struct remote_lane *remote_lane_of(struct lane *lane);

/* Gives a launch to the broker. SCHED_REASON_BROKER: done. Another reason: it goes home, after order_stream. */
enum sched_reason remote_launch(struct remote_lane *lane, const struct launch *launch, const struct function *function,
                                const struct arguments *arguments);

/* A copy or a memset in a stream, given to the broker if all of it is shared. False: make it at home. */
bool remote_copy(struct stream_key key, uint64_t to, uint64_t from, uint64_t bytes);
/* The same with host memory of any kind at one end. Copying out of pageable memory's end waits, as the driver does. */
bool remote_copy_in(struct stream_key key, uint64_t to, const void *from, uint64_t bytes);
bool remote_copy_out(struct stream_key key, void *to, uint64_t from, uint64_t bytes);
bool remote_fill(struct stream_key key, uint64_t to, uint64_t pitch, uint64_t width, uint64_t height, uint32_t value,
                 uint32_t element);

/* The lane of a stream if work in it goes to the broker now, else NULL. */
struct remote_lane *remote_of_stream(struct stream_key key);

/*
 * The program's position in a stream is a count of its lane: nothing of it is at home, or behind another lane. For a
 * record of an event there.
 */
bool remote_stands(struct stream_key key, struct remote_lane **lane, uint64_t *count);

/* What comes next in the lane, here or at home, comes behind `count` of the other. */
void remote_follow(struct remote_lane *lane, struct remote_lane *other, uint64_t count);

/* All up to this count is known to be complete. */
static inline bool remote_has(const struct remote_lane *lane, uint64_t count)
{
    return atomic_load_explicit(&lane->remote->area->lane[lane->number].completed, memory_order_acquire) >= count;
}

/* Waits on the host until `count` is complete; with a limit, for a caller that can wait otherwise. */
bool remote_wait(struct remote_lane *lane, uint64_t count, uint64_t limit_ns);

/* Asks the broker to make haste with what was sent: somebody looks at it, or a stream waits. */
void remote_want(struct remote_lane *lane, uint64_t count);

/* The program will wait for what the lane did: waits on the host until it is complete. NULL is fine. */
void remote_await(struct lane *lane);

/* Makes home wait for what was sent, for a call that is about to reach the driver and may work there. NULL is fine. */
void remote_settle(struct lane *lane);
void remote_settle_all(const struct context *context); /* NULL: of the process */

/* The call for which something was settled has returned. */
void remote_called(void);

/* What was sent through the lane failed: takes the error out. Kernels' faults stay for ever. */
CUresult remote_take_error(struct remote_lane *lane);

#endif
