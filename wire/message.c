/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/message.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 64 };

int wire_socket_path(const char *folder, const uint8_t device[16], char *path, size_t size)
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    struct sockaddr_un address;
    char name[2 * 16 + 1];
    int length;

    for (int i = 0; i < 16; i++)
        snprintf(name + 2 * i, 3, "%02x", device[i]);
    if (folder && folder[0])
        length = snprintf(path, size, "%s/%s.sock", folder, name);
    else if (runtime && runtime[0] == '/')
        length = snprintf(path, size, "%s/coissue/%s.sock", runtime, name);
    else
        length = snprintf(path, size, "/tmp/coissue-%u/%s.sock", (unsigned)geteuid(), name);
    return length < 0 || (size_t)length >= size || (size_t)length >= sizeof(address.sun_path) ? -ENAMETOOLONG : 0;
}

static int address_of(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address->sun_path))
        return -ENAMETOOLONG;
    strcpy(address->sun_path, path);
    return 0;
}

static int new_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

/* Who can write to the folder can put himself in the broker's place. */
static int folder_is_ours(const char *path)
{
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
    const char *end = strrchr(path, '/');
    struct stat about;

    if (!end)
        return -EINVAL;
    snprintf(folder, sizeof(folder), "%.*s", (int)(end - path), path);
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return -errno;
    if (stat(folder, &about) < 0)
        return -errno;
    return S_ISDIR(about.st_mode) && about.st_uid == geteuid() && !(about.st_mode & (S_IWGRP | S_IWOTH)) ? 0 : -EPERM;
}

static int peer(int fd, struct ucred *who)
{
    socklen_t size = sizeof(*who);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &size) < 0 ? -errno : 0;
}

int wire_connect(const char *path)
{
    struct sockaddr_un address;
    struct ucred who;
    int error = address_of(path, &address), fd = error < 0 ? error : new_socket();

    if (fd < 0)
        return fd;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        error = -errno;
    if (error == 0)
        error = peer(fd, &who);
    if (error == 0 && who.uid != geteuid())
        error = -EPERM;
    if (error == 0)
        return fd;
    close(fd);
    return error;
}

int wire_listen(const char *path)
{
    struct sockaddr_un address;
    int fd, error = address_of(path, &address);

    if (error == 0)
        error = folder_is_ours(path);
    if (error < 0)
        return error;
    fd = wire_connect(path);
    if (fd >= 0) {
        close(fd);
        return -EADDRINUSE;
    }
    fd = new_socket();
    if (fd < 0)
        return fd;
    unlink(path);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && chmod(path, 0600) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    error = -errno;
    close(fd);
    return error;
}

int wire_accept(int listener, pid_t *pid)
{
    struct ucred who;
    int error, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return -errno;
    error = peer(fd, &who);
    if (error == 0 && who.uid != geteuid())
        error = -EPERM;
    if (error < 0) {
        close(fd);
        return error;
    }
    *pid = who.pid;
    return fd;
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
};

int wire_send(int socket, const void *packet, size_t size, const int *fds, size_t count)
{
    struct iovec part = {(void *)packet, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union control control = {0};
    int sent[WIRE_FDS_MAX];
    size_t number = 0;
    ssize_t result;

    for (size_t i = 0; i < count && number < WIRE_FDS_MAX; i++)
        if (fds[i] >= 0)
            sent[number++] = fds[i];
    if (number > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(number * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(number * sizeof(int));
        memcpy(CMSG_DATA(&control.header), sent, number * sizeof(int));
    }
    do
        result = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    return (size_t)result == size ? 0 : -EPROTO;
}

static int wait_for(int socket, uint64_t timeout_ns)
{
    uint64_t begin_ns = clock_ns();
    struct pollfd one = {.fd = socket, .events = POLLIN};

    for (;;) {
        uint64_t waited_ns = clock_ns() - begin_ns;
        int left_ms = timeout_ns == UINT64_MAX  ? -1
                      : waited_ns >= timeout_ns ? 0
                                                : (int)((timeout_ns - waited_ns + 999999) / 1000000);
        int ready = poll(&one, 1, left_ms);

        if (ready > 0)
            return 0;
        if (ready == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

static void take_descriptors(struct msghdr *message, int *fds, size_t room, size_t *count)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        size_t number = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < number; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
            if (*count < room)
                fds[(*count)++] = fd;
            else
                close(fd);
        }
    }
}

int wire_receive(int socket, void *packet, size_t size, int *fds, size_t *count, uint64_t timeout_ns)
{
    struct iovec part = {packet, size};
    union control control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    size_t room = count ? *count : 0, found = 0;
    int error = wait_for(socket, timeout_ns);
    ssize_t result;

    if (error < 0)
        return error;
    do
        result = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return -errno;
    take_descriptors(&message, fds, room, &found);
    if (count)
        *count = found;
    if (result == 0)
        return -ECONNRESET;
    if ((size_t)result == size && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return 0;
    for (size_t i = 0; i < found; i++)
        close(fds[i]);
    if (count)
        *count = 0;
    return -EPROTO;
}
