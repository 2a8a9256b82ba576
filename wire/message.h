/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of a client and the broker's replies: one packet each over a Unix socket (SOCK_SEQPACKET), one request at a
 * time. Descriptors travel beside them.
 *
 * A connection is one client: one process and one device. It begins with WIRE_HELLO and ends when either side closes
 * it; then the broker finishes what was sent and forgets the client's memory.
 */
#ifndef COISSUE_WIRE_MESSAGE_H
#define COISSUE_WIRE_MESSAGE_H

#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum wire_request_type {
    /*
     * Who the client is. With the reply come two descriptors: the area, and the doorbell (an eventfd). reply.base and
     * reply.bytes: the addresses in which the client may put memory that it shares. -EPROTO: other version or build;
     * -EBUSY: no room for another client; -ENODEV: another device.
     */
    WIRE_HELLO = 1,
    /*
     * Memory for both, with its descriptor: device memory as cuMemExportToShareableHandle gives it, or host memory (a
     * memfd). It lies in the client's addresses, page-aligned, and overlaps nothing that is shared. After the reply the
     * broker has it at the same address. -EADDRINUSE, -EINVAL, or what its driver says as -EIO.
     */
    WIRE_MEMORY,
    /* That memory goes. The client has waited for all work that uses it. -ENOENT. */
    WIRE_FORGET,
    /*
     * Is this code known? reply.number: what names it from now on. -ENOENT: send WIRE_CODE. The code of one
     * architecture as coalesce/image.h finds it: a cubin or PTX.
     */
    WIRE_KNOWN,
    /* The code, in a memfd of `bytes` bytes. Its hash is computed anew. reply.number as above. */
    WIRE_CODE,
    /*
     * A kernel of that code, with the attributes that the program has set. reply.number: for wire_record.launch.
     * -ENOTSUP, and reply.text says why: it cannot run outside the program.
     */
    WIRE_FUNCTION,
    /* A lane begins, with a stream of this priority. -ENOSPC. */
    WIRE_LANE_BEGIN,
    /* It ends. All that was sent is complete. */
    WIRE_LANE_END,
    WIRE_REQUESTS
};

enum wire_memory { WIRE_DEVICE_MEMORY, WIRE_HOST_MEMORY };

/*
 * Of a client's addresses the lower part is for device memory, and is one reservation of the driver's on both sides: a
 * driver grants a large reservation where it is asked for, a small one where it likes (docs/decisions.md). The upper
 * part is for host memory.
 */
static inline uint64_t wire_device_bytes(uint64_t bytes)
{
    return bytes / 4 * 3;
}

enum { WIRE_TEXT_MAX = 1024, WIRE_BUILD_MAX = 32 };

struct wire_request {
    uint32_t type;
    uint32_t spare;
    union {
        struct {
            uint64_t magic;
            uint32_t version;
            uint32_t driver; /* cuDriverGetVersion */
            char build[WIRE_BUILD_MAX];
            uint8_t device[16]; /* UUID */
            int32_t pid;
            uint32_t weight;
            uint64_t slo_ns;
            uint64_t base; /* the addresses that it had from a broker before; 0: none */
        } hello;
        struct {
            uint64_t base, bytes;
            uint32_t kind; /* enum wire_memory */
            uint32_t spare;
        } memory;
        struct {
            uint64_t hash[2];
            uint64_t bytes;
            uint32_t ptx; /* 1: PTX, 0: a cubin */
            uint32_t spare;
        } code;
        struct {
            uint32_t code;
            int32_t shared_dynamic_max, carveout, nonportable_cluster; /* function attributes; -1: as it is */
            uint32_t parameter_bytes;                                  /* what the client's driver says */
        } function;
        struct {
            uint32_t lane;
            int32_t priority;
        } lane;
    };
    char text[WIRE_TEXT_MAX]; /* name of the process or kernel */
};

struct wire_reply {
    int32_t error; /* 0 or -errno */
    uint32_t number;
    uint64_t base, bytes;
    char text[WIRE_TEXT_MAX]; /* for people, when something is refused */
};

enum { WIRE_FDS_MAX = 2 };

/*
 * The folder of sockets: `folder` if it is not empty, else coissue in XDG_RUNTIME_DIR, else /tmp/coissue-UID; and the
 * socket of a device in it. -ENAMETOOLONG if it does not fit into a socket address.
 */
int wire_socket_path(const char *folder, const uint8_t device[16], char *path, size_t size);

/*
 * A socket that listens there: makes the folder (mode 0700 if it has to be made; it must be the user's own), takes the
 * place of a socket that nobody listens on. Of several that try at once one succeeds. -EADDRINUSE: somebody listens, or
 * hangs; -EPERM: the folder or the socket is another user's, or others can write to the folder; -EEXIST: what lies
 * there is no socket.
 */
int wire_listen(const char *path);

/*
 * A connection to it, close-on-exec; does not wait. -ENOENT or -ECONNREFUSED: there is no broker. -EAGAIN: it takes no
 * connections, so it hangs. -EPERM: it is another user's.
 */
int wire_connect(const char *path);

/* Takes a connection. -EPERM: it came from another user, and was closed; -EINTR and the like as accept(2). */
int wire_accept(int listener, pid_t *pid);

/*
 * One packet of exactly `size` bytes, with `count` descriptors, which stay the caller's. A negative descriptor is left
 * out. Does not wait. -EPIPE: the other side is gone; no SIGPIPE. -EAGAIN: it does not read, against the rule of one
 * request at a time.
 */
int wire_send(int socket, const void *packet, size_t size, const int *fds, size_t count);

/*
 * Waits for one, no longer than that (UINT64_MAX: for ever). *count: room in `fds` and then how many came
 * (close-on-exec, the caller's to close), none on errors; those for which there is no room are closed. -ECONNRESET: the
 * other side is gone; -EPROTO: another size; -ETIMEDOUT.
 */
int wire_receive(int socket, void *packet, size_t size, int *fds, size_t *count, uint64_t timeout_ns);

#endif
