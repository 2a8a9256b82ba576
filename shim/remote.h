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
 *   broker after home  the home stream writes the lane's `home` word behind its work, and the ring gets a WAIT_HOME
 *                      before the next record (in remote_push). A lane knows whether home has work: `dirty`.
 *
 * Fall back. If the broker is gone, hangs, or refuses something that it should not, the device is remote no more:
 * launches go home. If work was given to the broker and is not known to be complete, the program gets an error from
 * then on, for it may have run in part (remote_lost). Nothing else is lost: memory is the program's own.
 *
 * Locks: `remote->calls` for the socket, below it nothing of ours. A lane's `push` for its ring's order.
 */
#ifndef COISSUE_SHIM_REMOTE_H
#define COISSUE_SHIM_REMOTE_H

#include "shim/shim.h"
#include "wire/area.h"
#include "wire/message.h"
#include "wire/record.h"

struct remote_lane {
    struct remote *remote;
    struct ring ring;
    uint32_t number;          /* in the area */
    struct lock push;         /* the order of home words, waits, and counts in the ring */
    uint32_t home;            /* last value that home was told to write. Needs `push` */
    _Atomic uint32_t sent;    /* work records put into the ring. Written under `push` */
    _Atomic uint32_t settled; /* home waits, or need not wait, for all up to this count */
    _Atomic bool dirty;       /* home may have work that the broker's next record must come behind */
    bool begun;               /* the broker knows the lane */
};

struct remote {
    CUdevice device;
    _Atomic bool alive; /* release, last thing when it is set up; false again for ever when the broker is lost */
    int socket, doorbell;
    struct lock calls;
    struct wire_area *area;
    CUdeviceptr area_on_device; /* where the first wire_area_words() bytes are for this process's device */
    uint64_t base, bytes;       /* addresses for shared memory */
    uint32_t lanes_used;        /* a bit for each. Needs `calls` */
    struct remote_lane lane[WIRE_LANES];
    struct lock slot[WIRE_SLOTS];
    /*
     * Things alive that kernels of this process may reach and that the broker cannot: managed and registered memory,
     * pools, imports, textures. While there are any, launches go home.
     */
    _Atomic uint32_t private_things;
};

/* --- remote.c --- */

/*
 * The remote of a device, connected on the first call if there is a broker; NULL: none, launches are local. Must not be
 * called with a lock held. Makes driver calls in the current context, so not while anything captures.
 */
struct remote *remote_of(CUdevice device);

/* The same for the device of the calling thread's current context, without connecting. */
struct remote *remote_current(void);

/*
 * Sends a request and waits for the reply; `fds` (count of them, -1 allowed) go with it and stay the caller's. Returns
 * reply->error. A broker that does not answer within REQUEST_NS is lost: -ECONNRESET.
 */
int remote_request(struct remote *remote, struct wire_request *request, const int *fds, size_t count,
                   struct wire_reply *reply);

/* The broker does not answer as it should. Says so once, and launches go home from now on. */
void remote_lost(struct remote *remote, const char *why);

/* Waits until all that was sent is complete, in all lanes of the device. False: the broker was lost meanwhile. */
bool remote_drain(struct remote *remote);

/* --- remote_memory.c --- */

/* The bytes lie whole in one shared allocation. Any thread, no system call. */
bool remote_memory_holds(const struct remote *remote, uint64_t begin, uint64_t bytes);

/* --- remote_launch.c --- */

/* The program will wait for what the lane did: waits on the host until it is complete, for a while. */
void remote_await(struct remote_lane *lane);

/* Makes home wait for what was sent, and notes that home will have work. For a call that is about to reach the driver.
 */
void remote_settle(struct remote_lane *lane);

#endif
