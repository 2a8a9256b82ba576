/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/message.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

static int new_socket(int flags)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

    return fd < 0 ? -errno : fd;
}

/* Its descriptor. Who can write to the folder can put himself in the broker's place. */
static int open_our_folder(const char *path)
{
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
    const char *end = strrchr(path, '/');
    struct stat about;
    int fd, error;

    if (!end)
        return -EINVAL;
    snprintf(folder, sizeof(folder), "%.*s", (int)(end - path), path);
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? -EPERM : -errno;
    error = fstat(fd, &about) < 0                                                 ? -errno
            : about.st_uid == geteuid() && !(about.st_mode & (S_IWGRP | S_IWOTH)) ? 0
                                                                                  : -EPERM;
    if (error == 0)
        return fd;
    close(fd);
    return error;
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
    int error = address_of(path, &address), fd = error < 0 ? error : new_socket(SOCK_NONBLOCK);

    if (fd < 0)
        return fd;
    /* While too many wait to be taken this would block, for as long as the broker hangs. */
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || fcntl(fd, F_SETFL, 0) < 0)
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

/* Nobody has the place: nothing is there, or a socket that a dead process left, which goes. Needs the folder's lock. */
static int make_room(const char *path)
{
    struct stat about;
    int fd = wire_connect(path);

    if (fd >= 0)
        close(fd);
    if (fd >= 0 || fd == -EAGAIN)
        return -EADDRINUSE;
    if (fd == -ENOENT)
        return 0;
    if (fd != -ECONNREFUSED) /* another user's, another kind of socket: not ours to remove */
        return fd;
    if (lstat(path, &about) < 0)
        return -errno;
    if (!S_ISSOCK(about.st_mode))
        return -EEXIST;
    return unlink(path) < 0 ? -errno : 0;
}

int wire_listen(const char *path)
{
    struct sockaddr_un address;
    int fd, error = address_of(path, &address), folder = error < 0 ? error : open_our_folder(path);

    if (folder < 0)
        return folder;
    /* Between bind and listen a socket looks dead: of two that start at once the later would take the place. */
    while (flock(folder, LOCK_EX) < 0)
        if (errno != EINTR) {
            error = -errno;
            goto out;
        }
    error = make_room(path);
    if (error < 0)
        goto out;
    error = fd = new_socket(0);
    if (fd < 0)
        goto out;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || chmod(path, 0600) < 0 ||
        listen(fd, BACKLOG) < 0) {
        error = -errno;
        close(fd);
    }
out:
    close(folder);
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
        result = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
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
        uint64_t left_ms = waited_ns >= timeout_ns ? 0 : (timeout_ns - waited_ns - 1) / 1000000 + 1;
        int ready = poll(&one, 1, timeout_ns == UINT64_MAX ? -1 : left_ms > INT_MAX ? INT_MAX : (int)left_ms);

        if (ready > 0)
            return 0;
        if (ready == 0 && left_ms <= INT_MAX)
            return -ETIMEDOUT;
        if (ready < 0 && errno != EINTR)
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
    int error;
    ssize_t result;

    if (count)
        *count = 0;
    error = wait_for(socket, timeout_ns);
    if (error < 0)
        return error;
    do
        result = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return -errno;
    take_descriptors(&message, fds, room, &found);
    if ((size_t)result == size && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        if (count)
            *count = found;
        return 0;
    }
    for (size_t i = 0; i < found; i++)
        close(fds[i]);
    return result == 0 ? -ECONNRESET : -EPROTO;
}
