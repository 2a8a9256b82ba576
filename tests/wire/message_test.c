/* SPDX-License-Identifier: Apache-2.0
 *
 * Packets between a client and the broker: where the socket is, who may use it, descriptors that neither get lost nor
 * stay behind, and a limit on every wait.
 */
#include "wire/message.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint8_t device[16] = {0xab, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff};
#define DEVICE_NAME "ab0102030405060708090a0b0c0d0eff.sock"

static char folder[64], path[128];

static void make_folder(void)
{
    strcpy(folder, "/tmp/coissue-wire-XXXXXX");
    cr_assert(ne(ptr, mkdtemp(folder), NULL));
    cr_assert(eq(int, wire_socket_path(folder, device, path, sizeof(path)), 0));
}

static void drop_folder(void)
{
    unlink(path);
    rmdir(folder);
}

TestSuite(message, .init = make_folder, .fini = drop_folder, .timeout = 30);

static int open_descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

static void pair_of_sockets(int pair[2])
{
    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0));
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

Test(message, the_socket_lies_in_the_folder_that_is_given_or_in_the_runtime_folder_or_in_tmp)
{
    char found[256], expected[256];

    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    cr_assert(eq(int, wire_socket_path("/a/b", device, found, sizeof(found)), 0));
    cr_assert(eq(str, found, "/a/b/" DEVICE_NAME));
    cr_assert(eq(int, wire_socket_path("", device, found, sizeof(found)), 0));
    cr_assert(eq(str, found, "/run/user/7/coissue/" DEVICE_NAME));
    cr_assert(eq(int, wire_socket_path(NULL, device, found, sizeof(found)), 0));
    cr_assert(eq(str, found, "/run/user/7/coissue/" DEVICE_NAME));

    snprintf(expected, sizeof(expected), "/tmp/coissue-%u/" DEVICE_NAME, (unsigned)geteuid());
    setenv("XDG_RUNTIME_DIR", "", 1);
    cr_assert(eq(int, wire_socket_path(NULL, device, found, sizeof(found)), 0));
    cr_assert(eq(str, found, expected));
    setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
    cr_assert(eq(int, wire_socket_path(NULL, device, found, sizeof(found)), 0));
    cr_assert(eq(str, found, expected));
    unsetenv("XDG_RUNTIME_DIR");
    cr_assert(eq(int, wire_socket_path("", device, found, sizeof(found)), 0));
    cr_assert(eq(str, found, expected));
}

Test(message, a_path_that_fits_no_address_is_refused)
{
    char longest[200], found[300];

    memset(longest, 'x', sizeof(longest));
    longest[0] = '/';
    for (size_t length = 1; length < sizeof(longest); length++) {
        char saved = longest[length];
        bool fits = length + 1 + strlen(DEVICE_NAME) < sizeof(((struct sockaddr_un *)0)->sun_path);

        longest[length] = '\0';
        cr_assert(eq(int, wire_socket_path(longest, device, found, sizeof(found)), fits ? 0 : -ENAMETOOLONG),
                  "%zu characters", length);
        longest[length] = saved;
    }
    cr_assert(eq(int, wire_socket_path("/tmp", device, found, 10), -ENAMETOOLONG));
    longest[sizeof(longest) - 1] = '\0';
    cr_assert(eq(int, wire_connect(longest), -ENAMETOOLONG));
    cr_assert(eq(int, wire_listen(longest), -ENAMETOOLONG));
}

/* ---- who --------------------------------------------------------------------------------------------------------- */

Test(message, without_a_broker_the_reason_is_told)
{
    cr_assert(eq(int, wire_connect(path), -ENOENT));
    close(wire_listen(path)); /* leaves a dead socket */
    cr_assert(eq(int, wire_connect(path), -ECONNREFUSED));
}

Test(message, a_connection_tells_the_process_on_the_other_side)
{
    int listener = wire_listen(path), client, server;
    struct stat about;
    pid_t pid = 0;

    cr_assert(ge(int, listener, 0));
    cr_assert(eq(int, stat(path, &about), 0));
    cr_assert(eq(u32, about.st_mode & 0777, 0600));
    client = wire_connect(path);
    cr_assert(ge(int, client, 0));
    server = wire_accept(listener, &pid);
    cr_assert(ge(int, server, 0));
    cr_assert(eq(int, pid, getpid()));
    cr_assert(fcntl(listener, F_GETFD) & fcntl(client, F_GETFD) & fcntl(server, F_GETFD) & FD_CLOEXEC);
    close(client);
    close(server);
    close(listener);
}

Test(message, a_dead_socket_is_taken_over_and_a_live_one_is_not)
{
    int first = wire_listen(path), second;

    cr_assert(ge(int, first, 0));
    cr_assert(eq(int, wire_listen(path), -EADDRINUSE));
    close(first);
    second = wire_listen(path);
    cr_assert(ge(int, second, 0));
    cr_assert(eq(int, wire_listen(path), -EADDRINUSE));
    close(wire_connect(path));
    close(second);
}

/* A broker that hangs takes no connection; there is room for some, and then a client must not wait for ever. */
Test(message, a_listener_that_takes_nobody_is_no_trap)
{
    int listener = wire_listen(path), client[1000], count = 0;

    while (count < 1000 && (client[count] = wire_connect(path)) >= 0)
        count++;
    cr_assert(lt(int, count, 1000), "the kernel keeps so many waiting");
    cr_assert(eq(int, client[count], -EAGAIN));
    cr_assert(eq(int, wire_listen(path), -EADDRINUSE), "it lives all the same");
    while (count > 0)
        close(client[--count]);
    close(listener);
}

Test(message, of_many_that_want_to_be_the_broker_one_is)
{
    enum { MANY = 8, ROUNDS = 30 };

    for (int round = 0; round < ROUNDS; round++) {
        int start[2], hold[2], winners = 0, status;

        close(wire_listen(path)); /* a dead socket is there: all of them want to take it over */
        cr_assert(eq(int, pipe(start) | pipe(hold), 0));
        for (int i = 0; i < MANY; i++) {
            if (fork() == 0) {
                char one;
                int fd;

                close(start[1]);
                close(hold[1]);
                (void)!read(start[0], &one, 1);
                fd = wire_listen(path);
                close(start[0]);
                if (fd < 0)
                    _exit(fd == -EADDRINUSE ? 1 : 2);
                (void)!read(hold[0], &one, 1); /* listens until all have tried */
                _exit(0);
            }
        }
        close(start[0]);
        close(start[1]);
        /* The losers end by themselves; then the winner may. */
        for (int i = 0; i < MANY - 1; i++) {
            cr_assert(gt(int, wait(&status), 0));
            cr_assert(eq(int, status, 1 << 8), "a loser ended with %x", status);
        }
        close(hold[0]);
        close(hold[1]);
        cr_assert(gt(int, wait(&status), 0));
        winners += status == 0;
        cr_assert(eq(int, winners, 1));
    }
}

Test(message, something_else_than_a_socket_is_left_alone)
{
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    struct stat about;

    cr_assert(eq(long, write(file, "precious", 8), 8));
    close(file);
    cr_assert(lt(int, wire_listen(path), 0));
    cr_assert(eq(int, stat(path, &about), 0));
    cr_assert(eq(long, about.st_size, 8));
}

Test(message, the_folder_is_made_private_and_one_that_others_can_write_to_is_refused)
{
    char inner[80], inside[160];
    struct stat about;
    int listener;

    snprintf(inner, sizeof(inner), "%s/inner", folder);
    cr_assert(eq(int, wire_socket_path(inner, device, inside, sizeof(inside)), 0));
    listener = wire_listen(inside);
    cr_assert(ge(int, listener, 0));
    cr_assert(eq(int, stat(inner, &about), 0));
    cr_assert(eq(u32, about.st_mode & 0777, 0700));
    close(listener);
    unlink(inside);

    chmod(inner, 0770);
    cr_assert(eq(int, wire_listen(inside), -EPERM));
    chmod(inner, 0702);
    cr_assert(eq(int, wire_listen(inside), -EPERM));
    chmod(inner, 0755);
    listener = wire_listen(inside);
    cr_assert(ge(int, listener, 0));
    close(listener);
    unlink(inside);
    rmdir(inner);

    cr_assert(eq(int, wire_listen("no-folder.sock"), -EINVAL));
    snprintf(inside, sizeof(inside), "%s/no/such/x.sock", folder);
    cr_assert(eq(int, wire_listen(inside), -ENOENT));
}

Test(message, another_users_folder_client_and_broker_are_refused)
{
    enum { NOBODY = 65534 };
    int listener, told[2], status;
    pid_t pid, child;
    char byte;

    if (geteuid() != 0)
        cr_skip("only root can be two users");
    cr_assert(eq(int, chown(folder, NOBODY, NOBODY), 0));
    cr_assert(eq(int, wire_listen(path), -EPERM), "another user's folder");
    cr_assert(eq(int, chown(folder, 0, 0), 0));

    listener = wire_listen(path);
    cr_assert(ge(int, listener, 0));
    chmod(folder, 0755);
    child = fork();
    if (child == 0)
        _exit(setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY) || wire_connect(path) != -EACCES);
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_assert(eq(int, status, 0), "the mode of the socket keeps others out");

    /* Whoever gets past the mode is refused by what the kernel says of him; by both sides. */
    chmod(path, 0666);
    cr_assert(eq(int, pipe(told), 0));
    child = fork();
    if (child == 0) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

        strcpy(address.sun_path, path);
        if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY) || wire_connect(path) != -EPERM)
            _exit(1);
        _exit(connect(fd, (struct sockaddr *)&address, sizeof(address)) || write(told[1], "x", 1) != 1 ||
              read(fd, &byte, 1) != 0);
    }
    cr_assert(eq(int, wire_accept(listener, &pid), -EPERM));
    cr_assert(eq(long, read(told[0], &byte, 1), 1));
    cr_assert(eq(int, wire_accept(listener, &pid), -EPERM));
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_assert(eq(int, status, 0));
    close(listener);
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

Test(message, a_packet_arrives_with_its_descriptors)
{
    struct wire_request sent = {.type = WIRE_MEMORY, .memory = {.base = 7, .bytes = 4096}}, got = {0};
    int pair[2], given[2], taken[WIRE_FDS_MAX] = {-1, -1};
    size_t count = WIRE_FDS_MAX;
    char byte = 0;

    pair_of_sockets(pair);
    cr_assert(eq(int, pipe(given), 0));
    strcpy(sent.text, "name");
    cr_assert(eq(int, wire_send(pair[0], &sent, sizeof(sent), given, 2), 0));
    cr_assert(eq(int, wire_receive(pair[1], &got, sizeof(got), taken, &count, 0), 0));
    cr_assert(eq(sz, count, 2));
    cr_assert(eq(int, memcmp(&sent, &got, sizeof(got)), 0));
    cr_assert(ne(int, taken[0], given[0]));
    cr_assert(fcntl(taken[0], F_GETFD) & fcntl(taken[1], F_GETFD) & FD_CLOEXEC);
    cr_assert(eq(long, write(taken[1], "y", 1), 1));
    cr_assert(eq(long, read(given[0], &byte, 1), 1));
    cr_assert(eq(int, byte, 'y'));

    /* A negative one is left out; none is fine, also for who wants none. */
    cr_assert(eq(int, wire_send(pair[0], &sent, sizeof(sent), (int[]){-1, given[0]}, 2), 0));
    count = WIRE_FDS_MAX;
    cr_assert(eq(int, wire_receive(pair[1], &got, sizeof(got), taken, &count, 0), 0));
    cr_assert(eq(sz, count, 1));
    cr_assert(eq(int, wire_send(pair[0], &sent, sizeof(sent), NULL, 0), 0));
    cr_assert(eq(int, wire_receive(pair[1], &got, sizeof(got), NULL, NULL, 0), 0));
}

Test(message, descriptors_for_which_there_is_no_room_are_closed)
{
    struct wire_reply packet = {0};
    int pair[2], given[2], taken[1], before;
    size_t count;

    pair_of_sockets(pair);
    cr_assert(eq(int, pipe(given), 0));
    before = open_descriptors();
    for (int i = 0; i < 10; i++) {
        cr_assert(eq(int, wire_send(pair[0], &packet, sizeof(packet), given, 2), 0));
        count = 1;
        cr_assert(eq(int, wire_receive(pair[1], &packet, sizeof(packet), taken, &count, 0), 0));
        cr_assert(eq(sz, count, 1));
        close(taken[0]);
        cr_assert(eq(int, wire_send(pair[0], &packet, sizeof(packet), given, 2), 0));
        count = 0;
        cr_assert(eq(int, wire_receive(pair[1], &packet, sizeof(packet), NULL, &count, 0), 0));
        cr_assert(eq(sz, count, 0));
        cr_assert(eq(int, wire_send(pair[0], &packet, sizeof(packet), given, 2), 0));
        cr_assert(eq(int, wire_receive(pair[1], &packet, sizeof(packet), NULL, NULL, 0), 0));
    }
    cr_assert(eq(int, open_descriptors(), before));
}

/* What wire_send never does: any number of descriptors, beside a packet of any size. */
static void send_raw(int socket, const void *packet, size_t size, int fd, size_t count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(64 * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)packet, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header = (struct cmsghdr){CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        for (size_t i = 0; i < count; i++)
            memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &fd, sizeof(fd));
    }
    cr_assert(eq(long, sendmsg(socket, &message, MSG_NOSIGNAL), (long)size));
}

Test(message, a_packet_that_is_not_as_agreed_is_refused_and_leaves_no_descriptor)
{
    static const char bytes[2 * sizeof(struct wire_request)];
    struct wire_request packet;
    int pair[2], taken[WIRE_FDS_MAX] = {-1, -1}, before;
    const struct {
        size_t size, descriptors;
        int error;
        const char *what;
    } wrong[] = {
        {sizeof(packet) - 1, 0, -EPROTO, "too short"},        {sizeof(packet) + 1, 0, -EPROTO, "too long"},
        {1, 2, -EPROTO, "too short, with descriptors"},       {sizeof(bytes), 2, -EPROTO, "too long, with descriptors"},
        {sizeof(packet), 3, -EPROTO, "too many descriptors"}, {sizeof(packet), 60, -EPROTO, "far too many descriptors"},
        {0, 2, -ECONNRESET, "nothing but descriptors"},       {0, 0, -ECONNRESET, "nothing"},
    };

    pair_of_sockets(pair);
    before = open_descriptors();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        size_t count = WIRE_FDS_MAX;

        send_raw(pair[0], bytes, wrong[i].size, pair[0], wrong[i].descriptors);
        cr_assert(eq(int, wire_receive(pair[1], &packet, sizeof(packet), taken, &count, 0), wrong[i].error), "%s",
                  wrong[i].what);
        cr_assert(eq(sz, count, 0), "%s", wrong[i].what);
        cr_assert(eq(int, open_descriptors(), before), "%s", wrong[i].what);
    }
    /* The stream of packets is intact: each is refused for itself. */
    send_raw(pair[0], bytes, sizeof(packet), pair[0], 0);
    cr_assert(eq(int, wire_receive(pair[1], &packet, sizeof(packet), NULL, NULL, 0), 0));
}

Test(message, when_the_other_side_is_gone_both_are_told_and_no_signal_comes)
{
    struct wire_reply packet = {0};
    int pair[2], fds[WIRE_FDS_MAX];
    size_t count = WIRE_FDS_MAX;

    signal(SIGPIPE, SIG_DFL);
    pair_of_sockets(pair);
    cr_assert(eq(int, wire_send(pair[1], &packet, sizeof(packet), NULL, 0), 0));
    close(pair[1]);
    cr_assert(eq(int, wire_send(pair[0], &packet, sizeof(packet), NULL, 0), -EPIPE));
    cr_assert(eq(int, wire_receive(pair[0], &packet, sizeof(packet), fds, &count, UINT64_MAX), 0), "what was sent");
    count = WIRE_FDS_MAX;
    cr_assert(eq(int, wire_receive(pair[0], &packet, sizeof(packet), fds, &count, UINT64_MAX), -ECONNRESET));
    cr_assert(eq(sz, count, 0));
}

/* Packets of this side that nobody read are thrown away when the other ends; that is a reset, not an end. */
Test(message, unread_packets_of_a_dead_process_are_a_reset)
{
    struct wire_reply packet = {0};
    int pair[2];

    pair_of_sockets(pair);
    cr_assert(eq(int, wire_send(pair[0], &packet, sizeof(packet), NULL, 0), 0));
    close(pair[1]);
    cr_assert(eq(int, wire_receive(pair[0], &packet, sizeof(packet), NULL, NULL, UINT64_MAX), -ECONNRESET));
    cr_assert(eq(int, wire_send(pair[0], &packet, sizeof(packet), NULL, 0), -EPIPE));
}

Test(message, a_wait_ends_at_its_limit)
{
    struct wire_reply packet;
    uint64_t begin = clock_ns();
    size_t count = WIRE_FDS_MAX;
    int pair[2], fds[WIRE_FDS_MAX];

    pair_of_sockets(pair);
    cr_assert(eq(int, wire_receive(pair[0], &packet, sizeof(packet), fds, &count, 0), -ETIMEDOUT));
    cr_assert(eq(sz, count, 0));
    cr_assert(eq(int, wire_receive(pair[0], &packet, sizeof(packet), NULL, NULL, 20000000), -ETIMEDOUT));
    cr_assert(ge(u64, clock_ns() - begin, 20000000));
}

static void ignore(int number)
{
}

Test(message, signals_and_long_limits_do_not_end_a_wait_early)
{
    struct sigaction action = {.sa_handler = ignore}; /* without SA_RESTART */
    struct wire_reply packet = {.number = 5}, got;
    int pair[2], status;
    pid_t child;

    pair_of_sockets(pair);
    sigaction(SIGALRM, &action, NULL);
    child = fork();
    if (child == 0) {
        for (int i = 0; i < 5; i++) {
            usleep(5000);
            kill(getppid(), SIGALRM);
        }
        _exit(wire_send(pair[1], &packet, sizeof(packet), NULL, 0) != 0);
    }
    /* Ninety years: more milliseconds than poll(2) takes. */
    cr_assert(
        eq(int, wire_receive(pair[0], &got, sizeof(got), NULL, NULL, UINT64_C(90) * 365 * 86400 * 1000000000), 0));
    cr_assert(eq(u32, got.number, 5));
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_assert(eq(int, status, 0));
}

/* One request at a time: a peer that does not read its replies has only itself to blame, and must stop nobody. */
Test(message, a_peer_that_does_not_read_stops_nobody)
{
    struct wire_reply packet = {0};
    int pair[2], error = 0;

    pair_of_sockets(pair);
    for (int i = 0; i < 100000 && error == 0; i++)
        error = wire_send(pair[0], &packet, sizeof(packet), NULL, 0);
    cr_assert(eq(int, error, -EAGAIN));
}
