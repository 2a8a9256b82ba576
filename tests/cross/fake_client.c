/* SPDX-License-Identifier: Apache-2.0
 *
 * A client that misbehaves. It speaks to a broker by wire/ and does one thing that no client of ours does. Whatever
 * that is must cost it its own connection, or get an error as the answer, and nobody else anything.
 *
 *   fake_client SOCKET --list
 *   fake_client SOCKET CASE [--driver VERSION] [--build TEXT] [--seed N]
 *
 * Exit status: 0 the broker answered as it must, 1 it did not, 3 the broker did not take an honest greeting.
 */
#include "base/clock.h"
#include "wire/area.h"
#include "wire/message.h"
#include "wire/record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MEBI = 1 << 20, SHARED_BYTES = 2 * MEBI, WAIT_MS = 5000 };

static const char *path, *build = COISSUE_VERSION;
static uint32_t driver_version = 13000;
static uint64_t seed = 1;

static int connection = -1, doorbell = -1;
static struct wire_area *area;
static uint64_t base; /* of the addresses for shared memory; SHARED_BYTES of host memory lie there after share() */
static struct ring ring;

static _Noreturn void fail(const char *what, int error)
{
    fprintf(stderr, "fake_client: %s: %s\n", what, error < 0 ? strerror(-error) : "that should not be");
    exit(1);
}

/* ---- an honest beginning ----------------------------------------------------------------------------------------- */

static struct wire_request hello(void)
{
    struct wire_request request = {
        .type = WIRE_HELLO,
        .hello = {
            .magic = WIRE_MAGIC, .version = WIRE_VERSION, .driver = driver_version, .pid = getpid(), .weight = 100}};
    const char *name = strrchr(path, '/') + 1;

    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;

        if (sscanf(name + 2 * i, "%2x", &byte) != 1)
            fail("the name of the socket", 0);
        request.hello.device[i] = (uint8_t)byte;
    }
    snprintf(request.hello.build, sizeof(request.hello.build), "%s", build);
    strcpy(request.text, "fake_client");
    return request;
}

static int exchange(const struct wire_request *request, int fd, struct wire_reply *reply)
{
    int error = wire_send(connection, request, sizeof(*request), &fd, 1);

    if (error == 0)
        error = wire_receive(connection, reply, sizeof(*reply), NULL, NULL, WAIT_MS * UINT64_C(1000000));
    return error < 0 ? error : reply->error;
}

static void dial(void)
{
    connection = wire_connect(path);
    if (connection < 0)
        fail("connect", connection);
}

static void greet(void)
{
    struct wire_request request = hello();
    struct wire_reply reply;
    int fds[WIRE_FDS_MAX], error;
    size_t count = WIRE_FDS_MAX;

    dial();
    error = wire_send(connection, &request, sizeof(request), NULL, 0);
    if (error == 0)
        error = wire_receive(connection, &reply, sizeof(reply), fds, &count, WAIT_MS * UINT64_C(1000000));
    if (error < 0)
        fail("greeting", error);
    if (reply.error < 0) {
        fprintf(stderr, "fake_client: an honest greeting was refused: %s: %s\n", strerror(-reply.error), reply.text);
        exit(3);
    }
    if (count != 2 || wire_area_map(fds[0], &area) < 0)
        fail("what came with the reply", 0);
    doorbell = fds[1];
    base = reply.base + wire_device_bytes(reply.bytes); /* what is for host memory */
}

static int memory_file(size_t bytes, int seals)
{
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
        fail("memfd", -errno);
    return fd;
}

static struct wire_request memory(uint64_t at, uint64_t bytes, uint32_t kind)
{
    return (struct wire_request){.type = WIRE_MEMORY, .memory = {.base = at, .bytes = bytes, .kind = kind}};
}

static void share(void)
{
    struct wire_request request = memory(base, SHARED_BYTES, WIRE_HOST_MEMORY);
    struct wire_reply reply;
    int error = exchange(&request, memory_file(SHARED_BYTES, F_SEAL_SHRINK | F_SEAL_GROW), &reply);

    if (error < 0)
        fail("sharing honest memory", error);
}

static void begin_lane(void)
{
    struct wire_request request = {.type = WIRE_LANE_BEGIN, .lane = {.lane = 0}};
    struct wire_reply reply;
    int error;

    greet();
    share();
    error = exchange(&request, -1, &reply);
    if (error < 0)
        fail("beginning a lane", error);
    wire_ring(area, 0, &ring);
}

/* ---- what must come of it ---------------------------------------------------------------------------------------- */

static void must_end(void)
{
    struct wire_reply reply;
    uint64_t begin_ns = clock_ns();
    int error;

    do
        error = wire_receive(connection, &reply, sizeof(reply), NULL, NULL, WAIT_MS * UINT64_C(1000000));
    while (error == 0 && clock_ns() - begin_ns < WAIT_MS * UINT64_C(1000000));
    if (error != -ECONNRESET)
        fail("the connection did not end", error);
}

/* An error as the answer, or the end. */
static void must_be_refused(const struct wire_request *request, int fd)
{
    struct wire_reply reply;
    int error = exchange(request, fd, &reply);

    if (error == 0 || error == -ETIMEDOUT)
        fail("it was not refused", error);
}

static void *put(uint32_t bytes)
{
    void *record = ring_reserve(&ring, bytes, NULL);

    if (!record)
        fail("no room", 0);
    memset(record, 0, bytes);
    return record;
}

static void send_record(void *record)
{
    ring_commit(&ring, record);
    wire_touch(area, 0, doorbell);
}

/* After begin_lane. */
static void must_end_for(struct wire_record wrong, uint32_t bytes)
{
    struct wire_record *record = put(bytes);

    *record = wrong;
    send_record(record);
    must_end();
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void raw_packet(size_t size, int descriptors)
{
    static char packet[4 * sizeof(struct wire_request)];
    struct wire_request request = hello();
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(32 * sizeof(int))];
    } control = {0};
    struct iovec part = {packet, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    memcpy(packet, &request, sizeof(request));
    if (descriptors) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)descriptors * sizeof(int));
        control.header = (struct cmsghdr){CMSG_LEN((size_t)descriptors * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        for (int i = 0; i < descriptors; i++)
            memcpy(CMSG_DATA(&control.header) + (size_t)i * sizeof(int), &connection, sizeof(int));
    }
    if (sendmsg(connection, &message, MSG_NOSIGNAL) < 0)
        fail("sendmsg", -errno);
}

static void a_short_packet(void)
{
    dial();
    raw_packet(100, 0);
    must_end();
}

static void a_long_packet(void)
{
    dial();
    raw_packet(sizeof(struct wire_request) + 8, 0);
    must_end();
}

static void an_empty_packet(void)
{
    dial();
    raw_packet(0, 1);
    must_end();
}

static void too_many_descriptors(void)
{
    dial();
    raw_packet(sizeof(struct wire_request), 30);
    must_end();
}

static void a_greeting(uint64_t magic, uint32_t version, const char *other_build, bool other_device)
{
    struct wire_request request = hello();

    request.hello.magic = magic;
    request.hello.version = version;
    if (other_build)
        snprintf(request.hello.build, sizeof(request.hello.build), "%s", other_build);
    if (other_device)
        request.hello.device[3] ^= 0x40;
    dial();
    must_be_refused(&request, -1);
}

static void another_magic(void)
{
    a_greeting(WIRE_MAGIC + 1, WIRE_VERSION, NULL, false);
}

static void another_version(void)
{
    a_greeting(WIRE_MAGIC, WIRE_VERSION + 1, NULL, false);
}

static void another_build(void)
{
    a_greeting(WIRE_MAGIC, WIRE_VERSION, "0.0.0-other", false);
}

static void a_build_without_an_end(void)
{
    a_greeting(WIRE_MAGIC, WIRE_VERSION, "01234567890123456789012345678901234567890", false);
}

static void another_device(void)
{
    a_greeting(WIRE_MAGIC, WIRE_VERSION, NULL, true);
}

static void no_greeting(void)
{
    struct wire_request request = {.type = WIRE_LANE_BEGIN};

    dial();
    must_be_refused(&request, -1);
}

static void two_greetings(void)
{
    struct wire_request request = hello();

    greet();
    must_be_refused(&request, -1);
}

static void an_unknown_request(void)
{
    struct wire_request request = {.type = WIRE_REQUESTS};

    greet();
    must_be_refused(&request, -1);
}

static void request_zero(void)
{
    struct wire_request request = {.type = 0};

    greet();
    must_be_refused(&request, -1);
}

static void refused_memory(uint64_t offset, uint64_t bytes, uint32_t kind, int fd)
{
    struct wire_request request;

    greet();
    request = memory(base + offset, bytes, kind);
    must_be_refused(&request, fd);
}

static void memory_without_a_descriptor(void)
{
    refused_memory(0, SHARED_BYTES, WIRE_HOST_MEMORY, -1);
}

static void memory_between_pages(void)
{
    refused_memory(64, SHARED_BYTES, WIRE_HOST_MEMORY, memory_file(2 * SHARED_BYTES, F_SEAL_SHRINK));
}

static void memory_of_no_bytes(void)
{
    refused_memory(0, 0, WIRE_HOST_MEMORY, memory_file(SHARED_BYTES, F_SEAL_SHRINK));
}

static void memory_below_its_addresses(void)
{
    refused_memory((uint64_t)-SHARED_BYTES, SHARED_BYTES, WIRE_HOST_MEMORY, memory_file(SHARED_BYTES, F_SEAL_SHRINK));
}

static void memory_over_the_end_of_all(void)
{
    refused_memory(0, UINT64_MAX - 4095, WIRE_HOST_MEMORY, memory_file(SHARED_BYTES, F_SEAL_SHRINK));
}

static void memory_of_another_kind(void)
{
    refused_memory(0, SHARED_BYTES, 7, memory_file(SHARED_BYTES, F_SEAL_SHRINK));
}

/* Who touches what is not there dies of SIGBUS. */
static void memory_larger_than_its_file(void)
{
    refused_memory(0, SHARED_BYTES, WIRE_HOST_MEMORY, memory_file(4096, F_SEAL_SHRINK));
}

static void memory_that_can_shrink(void)
{
    refused_memory(0, SHARED_BYTES, WIRE_HOST_MEMORY, memory_file(SHARED_BYTES, 0));
}

static void memory_that_is_a_pipe(void)
{
    int ends[2];

    if (pipe(ends) < 0)
        fail("pipe", -errno);
    refused_memory(0, SHARED_BYTES, WIRE_HOST_MEMORY, ends[0]);
}

static void device_memory_that_is_a_device_file(void)
{
    refused_memory(0, SHARED_BYTES, WIRE_DEVICE_MEMORY, open("/dev/zero", O_RDWR | O_CLOEXEC));
}

static void memory_twice(void)
{
    struct wire_request request;

    greet();
    share();
    request = memory(base + MEBI, SHARED_BYTES, WIRE_HOST_MEMORY);
    must_be_refused(&request, memory_file(SHARED_BYTES, F_SEAL_SHRINK));
}

static void forgetting_what_is_not_there(void)
{
    struct wire_request request = {.type = WIRE_FORGET, .memory = {.base = 0x1000, .bytes = 4096}};

    greet();
    must_be_refused(&request, -1);
}

static void refused_code(uint64_t bytes, const char *content, uint32_t ptx)
{
    struct wire_request request = {.type = WIRE_CODE, .code = {.hash = {1, 2}, .bytes = bytes, .ptx = ptx}};
    int fd = memory_file(8192, F_SEAL_SHRINK);

    if (pwrite(fd, content, strlen(content), 0) < 0)
        fail("pwrite", -errno);
    greet();
    must_be_refused(&request, fd);
}

static void code_of_no_bytes(void)
{
    refused_code(0, "x", 1);
}

static void code_larger_than_its_file(void)
{
    refused_code(UINT64_C(1) << 40, "x", 1);
}

static void code_a_little_larger_than_its_file(void)
{
    refused_code(8193, "x", 0);
}

static void code_without_a_descriptor(void)
{
    struct wire_request request = {.type = WIRE_CODE, .code = {.bytes = 100, .ptx = 1}};

    greet();
    must_be_refused(&request, -1);
}

static void a_function_of_unknown_code(void)
{
    struct wire_request request = {.type = WIRE_FUNCTION, .function = {.code = 12345}, .text = "kernel"};

    greet();
    must_be_refused(&request, -1);
}

static void a_function_whose_name_has_no_end(void)
{
    struct wire_request request = {.type = WIRE_FUNCTION, .function = {.code = 0}};

    memset(request.text, 'k', sizeof(request.text));
    greet();
    must_be_refused(&request, -1);
}

static void refused_lane(enum wire_request_type type, uint32_t lane)
{
    struct wire_request request = {.type = type, .lane = {.lane = lane}};

    must_be_refused(&request, -1);
}

static void a_lane_too_many(void)
{
    greet();
    refused_lane(WIRE_LANE_BEGIN, WIRE_LANES);
}

static void a_lane_far_away(void)
{
    greet();
    refused_lane(WIRE_LANE_BEGIN, UINT32_MAX);
}

static void a_lane_twice(void)
{
    begin_lane();
    refused_lane(WIRE_LANE_BEGIN, 0);
}

static void the_end_of_no_lane(void)
{
    greet();
    refused_lane(WIRE_LANE_END, 5);
}

/* Requests without reading replies: the broker may end the connection, but must not wait. */
static void replies_that_nobody_reads(void)
{
    struct wire_request request = {.type = WIRE_KNOWN, .code = {.bytes = 100, .ptx = 1}};

    greet();
    for (int i = 0; i < 20000; i++)
        if (wire_send(connection, &request, sizeof(request), NULL, 0) == -EPIPE)
            return;
}

static void silence(void)
{
    dial();
    usleep(300000);
}

static void silence_after_the_greeting(void)
{
    greet();
    usleep(300000);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void a_record_of_no_kind(void)
{
    begin_lane();
    must_end_for((struct wire_record){.kind = 0}, sizeof(struct wire_record));
}

static void a_record_of_an_unknown_kind(void)
{
    begin_lane();
    must_end_for((struct wire_record){.kind = 200}, sizeof(struct wire_record));
}

static void a_record_of_one_byte(void)
{
    begin_lane();
    send_record(put(1));
    must_end();
}

static void a_record_that_is_too_large(void)
{
    begin_lane();
    send_record(put(WIRE_RECORD_MAX + 64));
    must_end();
}

static struct wire_record unknown_launch(void)
{
    return (struct wire_record){.kind = WIRE_LAUNCH,
                                .launch = {.function = 4000000000u, .grid = {1, 1, 1}, .block = {1, 1, 1}}};
}

static void a_launch_of_an_unknown_function(void)
{
    struct wire_record record = unknown_launch();

    begin_lane();
    must_end_for(record, sizeof(record));
}

static void parameters_beyond_the_record(void)
{
    struct wire_record record = unknown_launch();

    record.parameter_bytes = 32000;
    begin_lane();
    must_end_for(record, sizeof(record) + 64);
}

static void more_parameters_than_there_are(void)
{
    struct wire_record record = unknown_launch();

    record.parameter_bytes = UINT32_MAX;
    begin_lane();
    must_end_for(record, sizeof(record) + 64);
}

static void attributes_beyond_the_record(void)
{
    struct wire_record record = unknown_launch();

    record.attribute_count = 255;
    begin_lane();
    must_end_for(record, sizeof(record) + 64);
}

static void wrong_copy(uint64_t to, uint64_t from, uint64_t bytes)
{
    must_end_for((struct wire_record){.kind = WIRE_COPY, .copy = {to, from, bytes}}, sizeof(struct wire_record));
}

static void a_copy_from_nowhere(void)
{
    begin_lane();
    wrong_copy(base, 0x1000, 64);
}

static void a_copy_over_the_edge(void)
{
    begin_lane();
    wrong_copy(base + SHARED_BYTES - 32, base, 64);
}

static void a_copy_of_nearly_everything(void)
{
    begin_lane();
    wrong_copy(base, base + 4096, UINT64_MAX - 4096);
}

static void content_beyond_the_record(void)
{
    begin_lane();
    must_end_for((struct wire_record){.kind = WIRE_COPY_IN, .copy = {base, 0, WIRE_COPY_IN_MAX}},
                 sizeof(struct wire_record) + 64);
}

static void a_copy_to_a_slot_that_is_not_there(void)
{
    begin_lane();
    must_end_for(
        (struct wire_record){.kind = WIRE_COPY_OUT, .copy = {(uint64_t)WIRE_SLOTS * WIRE_SLOT_BYTES, base, 64}},
        sizeof(struct wire_record));
}

static void a_copy_over_the_end_of_all_slots(void)
{
    begin_lane();
    must_end_for(
        (struct wire_record){.kind = WIRE_COPY_OUT, .copy = {(uint64_t)WIRE_SLOTS * WIRE_SLOT_BYTES - 32, base, 64}},
        sizeof(struct wire_record));
}

static void wrong_fill(uint64_t to, uint64_t pitch, uint64_t width, uint64_t height, uint32_t element)
{
    begin_lane();
    must_end_for((struct wire_record){.kind = WIRE_FILL, .fill = {base + to, pitch, width, height, 1, element}},
                 sizeof(struct wire_record));
}

static void a_fill_of_odd_elements(void)
{
    wrong_fill(0, 0, 8, 1, 3);
}

static void a_fill_whose_size_overflows(void)
{
    wrong_fill(0, UINT64_C(1) << 40, 8, UINT64_C(1) << 40, 4);
}

static void a_fill_whose_width_overflows(void)
{
    wrong_fill(0, 0, UINT64_MAX / 2 + 2, 1, 4);
}

static void a_wait_for_a_lane_that_is_not_there(void)
{
    begin_lane();
    must_end_for((struct wire_record){.kind = WIRE_WAIT_LANE, .wait = {.lane = WIRE_LANES, .count = 1}},
                 sizeof(struct wire_record));
}

static void a_wait_for_a_home_that_is_not_there(void)
{
    begin_lane();
    must_end_for((struct wire_record){.kind = WIRE_WAIT_HOME, .wait = {.lane = UINT32_MAX, .count = 1}},
                 sizeof(struct wire_record));
}

/* Waits for what never comes: its own affair, until it ends. */
static void a_wait_for_ever(void)
{
    struct wire_record *record;

    begin_lane();
    record = put(sizeof(*record));
    *record = (struct wire_record){.kind = WIRE_WAIT_HOME, .wait = {.lane = 0, .count = 1}};
    send_record(record);
    usleep(200000);
}

static void a_record_that_is_never_finished(void)
{
    begin_lane();
    put(64);
    wire_touch(area, 0, doorbell);
    usleep(200000);
}

static void wrong_word(uint32_t word)
{
    begin_lane();
    atomic_store(&ring.words[0], word);
    wire_touch(area, 0, doorbell);
    must_end();
}

static void a_word_that_leads_outside(void)
{
    wrong_word((WIRE_RING_BYTES + 64) << 2 | 1);
}

static void a_word_of_the_largest_size(void)
{
    wrong_word(UINT32_MAX & ~2u);
}

static void a_word_of_size_zero(void)
{
    wrong_word(1);
}

/* May end the connection or not; must not hold up the broker. */
static void pads_for_ever(void)
{
    uint64_t begin_ns = clock_ns();

    begin_lane();
    while (clock_ns() - begin_ns < 300000000) {
        for (uint32_t unit = 0; unit < WIRE_RING_BYTES / RING_UNIT; unit++)
            atomic_store_explicit(&ring.words[unit], RING_UNIT << 2 | 3, memory_order_relaxed);
        wire_touch(area, 0, doorbell);
    }
}

static void bells_for_ever(void)
{
    const uint64_t many = UINT64_MAX - 1;
    uint64_t begin_ns = clock_ns();

    greet();
    fcntl(doorbell, F_SETFL, O_NONBLOCK);
    while (clock_ns() - begin_ns < 300000000) {
        atomic_store(&area->touched, UINT32_MAX);
        (void)!write(doorbell, &many, sizeof(many));
    }
}

static uint64_t next_random(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 24;
}

/* Anything at all in the area, while the broker looks at it. */
static void noise_in_the_area(void)
{
    uint64_t begin_ns = clock_ns();

    begin_lane();
    for (int i = 0; clock_ns() - begin_ns < 100000000; i++) {
        uint32_t unit = (uint32_t)next_random() % (WIRE_RING_BYTES / RING_UNIT);
        uint32_t *at = (uint32_t *)(void *)(ring.data + unit * RING_UNIT);

        for (int k = 0; k < 14; k++)
            at[k] = next_random() % 4 ? (uint32_t)(next_random() % 9) : (uint32_t)next_random();
        atomic_store(&ring.words[unit], next_random() % 3 ? 56u << 2 | 1 : (uint32_t)next_random());
        if (i % 8 == 0)
            atomic_store(&ring.ends->consumed, next_random() % 2 ? unit * RING_UNIT : next_random());
        if (i % 8 == 3)
            atomic_store(&ring.ends->reserved, next_random());
        if (i % 8 == 5)
            area->version = (uint32_t)next_random(), area->bytes = next_random();
        if (i % 8 == 7)
            atomic_store(&area->lane[next_random() % WIRE_LANES].taken, next_random());
        atomic_store(&area->lane[0].wanted, (uint32_t)next_random());
        atomic_store(&area->touched, (uint32_t)next_random());
        wire_touch(area, (uint32_t)next_random() % WIRE_LANES, doorbell);
    }
}

static void noise_on_the_socket(void)
{
    struct wire_request request;
    struct wire_reply reply;
    int error = 0;

    greet();
    for (int i = 0; i < 200 && error != -EPIPE && error != -ECONNRESET; i++) {
        unsigned char *bytes = (unsigned char *)&request;
        int fd = i % 3 ? -1 : memory_file(4096 * (1 + next_random() % 3), i % 2 ? F_SEAL_SHRINK : 0);

        for (size_t k = 0; k < sizeof(request); k++)
            bytes[k] = (unsigned char)next_random();
        request.type = (uint32_t)next_random() % (WIRE_REQUESTS + 1);
        if (next_random() % 2) { /* nearly right */
            request.memory.base = base + next_random() % 3 * 4096;
            request.memory.bytes = next_random() % 4 * 4096;
            request.memory.kind = WIRE_HOST_MEMORY;
        } else if (next_random() % 2) {
            request.lane.lane = (uint32_t)next_random() % 40;
            request.lane.priority = 0;
        }
        error = wire_send(connection, &request, sizeof(request), &fd, 1);
        if (error == 0)
            error = wire_receive(connection, &reply, sizeof(reply), NULL, NULL, WAIT_MS * UINT64_C(1000000));
        if (error == -ETIMEDOUT)
            fail("no reply", error);
        if (fd >= 0)
            close(fd);
    }
}

static void killed_in_the_middle(void)
{
    begin_lane();
    put(64);
    raise(SIGKILL);
}

#define CASE(function)                                                                                                 \
    {                                                                                                                  \
#function, function                                                                                            \
    }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(a_short_packet),
    CASE(a_long_packet),
    CASE(an_empty_packet),
    CASE(too_many_descriptors),
    CASE(another_magic),
    CASE(another_version),
    CASE(another_build),
    CASE(a_build_without_an_end),
    CASE(another_device),
    CASE(no_greeting),
    CASE(two_greetings),
    CASE(an_unknown_request),
    CASE(request_zero),
    CASE(memory_without_a_descriptor),
    CASE(memory_between_pages),
    CASE(memory_of_no_bytes),
    CASE(memory_below_its_addresses),
    CASE(memory_over_the_end_of_all),
    CASE(memory_of_another_kind),
    CASE(memory_larger_than_its_file),
    CASE(memory_that_can_shrink),
    CASE(memory_that_is_a_pipe),
    CASE(device_memory_that_is_a_device_file),
    CASE(memory_twice),
    CASE(forgetting_what_is_not_there),
    CASE(code_of_no_bytes),
    CASE(code_larger_than_its_file),
    CASE(code_a_little_larger_than_its_file),
    CASE(code_without_a_descriptor),
    CASE(a_function_of_unknown_code),
    CASE(a_function_whose_name_has_no_end),
    CASE(a_lane_too_many),
    CASE(a_lane_far_away),
    CASE(a_lane_twice),
    CASE(the_end_of_no_lane),
    CASE(replies_that_nobody_reads),
    CASE(silence),
    CASE(silence_after_the_greeting),
    CASE(a_record_of_no_kind),
    CASE(a_record_of_an_unknown_kind),
    CASE(a_record_of_one_byte),
    CASE(a_record_that_is_too_large),
    CASE(a_launch_of_an_unknown_function),
    CASE(parameters_beyond_the_record),
    CASE(more_parameters_than_there_are),
    CASE(attributes_beyond_the_record),
    CASE(a_copy_from_nowhere),
    CASE(a_copy_over_the_edge),
    CASE(a_copy_of_nearly_everything),
    CASE(content_beyond_the_record),
    CASE(a_copy_to_a_slot_that_is_not_there),
    CASE(a_copy_over_the_end_of_all_slots),
    CASE(a_fill_of_odd_elements),
    CASE(a_fill_whose_size_overflows),
    CASE(a_fill_whose_width_overflows),
    CASE(a_wait_for_a_lane_that_is_not_there),
    CASE(a_wait_for_a_home_that_is_not_there),
    CASE(a_wait_for_ever),
    CASE(a_record_that_is_never_finished),
    CASE(a_word_that_leads_outside),
    CASE(a_word_of_the_largest_size),
    CASE(a_word_of_size_zero),
    CASE(pads_for_ever),
    CASE(bells_for_ever),
    CASE(noise_in_the_area),
    CASE(noise_on_the_socket),
    CASE(killed_in_the_middle),
};

int main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[2] : "";

    if (argc < 3)
        return 2;
    path = argv[1];
    for (int i = 3; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--driver") == 0)
            driver_version = (uint32_t)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--build") == 0)
            build = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else
            return 2;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(name, "--list") == 0) {
            puts(cases[i].name);
        } else if (strcmp(name, cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return strcmp(name, "--list") == 0 ? 0 : 2;
}
