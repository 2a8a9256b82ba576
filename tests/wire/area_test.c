/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared memory of a client and the broker: made and sealed once, checked by who maps it, the same rings from two
 * processes, and a doorbell that rings for a sleeper only.
 */
#include "wire/area.h"

#include "wire/record.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 100000 };

static struct wire_area *area;
static int area_fd = -1;

static void make_area(void)
{
    cr_assert(eq(int, wire_area_create(&area, &area_fd), 0));
}

static void drop_area(void)
{
    wire_area_unmap(area);
    close(area_fd);
}

TestSuite(area, .init = make_area, .fini = drop_area);

static off_t size_of(int fd)
{
    struct stat about;

    cr_assert(eq(int, fstat(fd, &about), 0));
    return about.st_size;
}

static int refusal(int fd)
{
    struct wire_area *found = area;
    int error = wire_area_map(fd, &found);

    cr_assert(eq(ptr, found, area), "set although it was refused");
    return error;
}

/* A file with the size and the beginning of an area, sealed or not. */
static int imitation(off_t size, int seals, const struct wire_area *header)
{
    int fd = memfd_create("imitation", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    cr_assert(ge(int, fd, 0));
    cr_assert(eq(int, ftruncate(fd, size), 0));
    cr_assert(eq(long, pwrite(fd, header, 4 * sizeof(uint64_t), 0), 4 * sizeof(uint64_t)));
    cr_assert(eq(int, fcntl(fd, F_ADD_SEALS, seals), 0));
    return fd;
}

Test(area, a_new_one_is_empty_and_says_what_it_is)
{
    cr_assert(eq(u64, area->magic, WIRE_MAGIC));
    cr_assert(eq(u32, area->version, WIRE_VERSION));
    cr_assert(eq(u32, area->lanes, WIRE_LANES));
    cr_assert(eq(u64, area->bytes, (uint64_t)size_of(area_fd)));
    cr_assert(eq(u32, atomic_load(&area->state), WIRE_RUNS));
    cr_assert(eq(u32, atomic_load(&area->touched), 0));
    cr_assert(fcntl(area_fd, F_GETFD) & FD_CLOEXEC);
    for (uint32_t lane = 0; lane < WIRE_LANES; lane++) {
        struct ring ring;
        uint32_t bytes;

        wire_ring(area, lane, &ring);
        cr_assert(ring_empty(&ring));
        cr_assert(eq(ptr, (void *)ring_peek(&ring, &bytes), NULL));
    }
}

Test(area, it_can_neither_shrink_nor_grow)
{
    off_t size = size_of(area_fd);

    cr_assert(lt(int, ftruncate(area_fd, size - 4096), 0));
    cr_assert(eq(int, errno, EPERM));
    cr_assert(lt(int, ftruncate(area_fd, size + 4096), 0));
    cr_assert(lt(int, ftruncate(area_fd, 0), 0));
    cr_assert(eq(long, (long)size_of(area_fd), (long)size));
}

Test(area, what_one_side_writes_the_other_reads)
{
    struct wire_area *other;

    cr_assert(eq(int, wire_area_map(area_fd, &other), 0));
    cr_assert(ne(ptr, other, area));
    atomic_store(&area->lane[WIRE_LANES - 1].done, 77);
    cr_assert(eq(u32, atomic_load(&other->lane[WIRE_LANES - 1].done), 77));
    other->slot[WIRE_SLOTS - 1][WIRE_SLOT_BYTES - 1] = 'x';
    cr_assert(eq(int, area->slot[WIRE_SLOTS - 1][WIRE_SLOT_BYTES - 1], 'x'));
    wire_area_unmap(other);
}

Test(area, the_words_come_first_and_nothing_overlaps)
{
    const unsigned char *begin = (const unsigned char *)area, *end = begin + area->bytes;
    const unsigned char *last = begin + wire_area_words();

    cr_assert(le(sz, offsetof(struct wire_area, lane) + sizeof(area->lane), offsetof(struct wire_area, slot)));
    cr_assert(ge(sz, wire_area_words(), sizeof(*area)));
    for (uint32_t lane = 0; lane < WIRE_LANES; lane++) {
        struct ring ring;

        wire_ring(area, lane, &ring);
        cr_assert(eq(ptr, ring.data, (void *)last));
        cr_assert(eq(ptr, ring.ends, &area->lane[lane].ends));
        last = ring.data + ring_memory(WIRE_RING_BYTES);
    }
    cr_assert(eq(ptr, (void *)last, (void *)end));
}

Test(area, the_largest_record_fits_a_ring)
{
    struct ring ring;

    wire_ring(area, 0, &ring);
    cr_assert(ge(u32, ring_largest(&ring), (uint32_t)WIRE_RECORD_MAX));
    cr_assert(ge(u32, ring_largest(&ring), wire_record_bytes(0, WIRE_COPY_IN_MAX)));
    cr_assert(ge(u32, (uint32_t)WIRE_RECORD_MAX, wire_record_bytes(WIRE_ATTRIBUTES_MAX, WIRE_PARAMETERS_MAX)));
}

Test(area, other_files_are_refused)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW, null = open("/dev/null", O_RDWR | O_CLOEXEC), file[2];
    off_t size = size_of(area_fd);
    struct wire_area *header = aligned_alloc(_Alignof(struct wire_area), wire_area_words());

    cr_assert(ne(ptr, header, NULL));
    memcpy(header, area, 4 * sizeof(uint64_t));
    cr_assert(eq(int, refusal(-1), -EPROTO));
    cr_assert(eq(int, refusal(null), -EPROTO));
    cr_assert(eq(int, pipe(file), 0));
    cr_assert(eq(int, refusal(file[0]), -EPROTO));

    cr_assert(eq(int, refusal(imitation(size, F_SEAL_GROW, header)), -EPROTO), "it could shrink");
    cr_assert(eq(int, refusal(imitation(size - 4096, seals, header)), -EPROTO), "too small");
    cr_assert(eq(int, refusal(imitation(size + 4096, seals, header)), -EPROTO), "too large");
    header->magic++;
    cr_assert(eq(int, refusal(imitation(size, seals, header)), -EPROTO), "another magic");
    header->magic--;
    header->version++;
    cr_assert(eq(int, refusal(imitation(size, seals, header)), -EPROTO), "another version");
    header->version--;
    header->lanes--;
    cr_assert(eq(int, refusal(imitation(size, seals, header)), -EPROTO), "other lanes");
    header->lanes++;
    header->bytes -= 64;
    cr_assert(eq(int, refusal(imitation(size, seals, header)), -EPROTO), "another size in the header");
    header->bytes += 64;

    struct wire_area *found;
    int good = imitation(size, seals, header);
    cr_assert(eq(int, wire_area_map(good, &found), 0), "the imitation itself is a good one");
    wire_area_unmap(found);
    wire_area_unmap(NULL);
    free(header);
}

static uint32_t record_bytes(uint32_t number)
{
    return 8 + number * 37 % 700;
}

/* A client: maps the area anew and fills two of its lanes. */
static int produce_records(int fd)
{
    struct wire_area *mine;
    struct ring ring[2];

    if (wire_area_map(fd, &mine))
        return 1;
    wire_ring(mine, 0, &ring[0]);
    wire_ring(mine, WIRE_LANES - 1, &ring[1]);
    for (uint32_t number = 0; number < RECORDS; number++) {
        uint32_t bytes = record_bytes(number), *record;

        while (!(record = ring_reserve(&ring[number % 2], bytes, NULL)))
            sched_yield();
        memset(record, (int)(number & 255), bytes);
        record[0] = number;
        record[1] = ~number;
        ring_commit(&ring[number % 2], record);
    }
    return 0;
}

Test(area, records_of_another_process_come_in_order_and_whole, .timeout = 60)
{
    struct ring ring[2];
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(produce_records(area_fd));
    wire_ring(area, 0, &ring[0]);
    wire_ring(area, WIRE_LANES - 1, &ring[1]);
    for (uint32_t number = 0; number < RECORDS; number++) {
        struct ring *from = &ring[number % 2];
        const unsigned char *record;
        uint32_t bytes, head[2], wrong = 0;

        while (!(record = ring_peek(from, &bytes)))
            if (waitpid(child, &status, WNOHANG) == child && !ring_peek(from, &bytes))
                cr_fatal("the producer ended at record %u with status %x", number, status);
        cr_assert(ring_holds(from, record, bytes));
        cr_assert(eq(u32, bytes, record_bytes(number)));
        memcpy(head, record, sizeof(head));
        cr_assert(eq(u32, head[0], number));
        cr_assert(eq(u32, head[1], ~number));
        for (uint32_t i = sizeof(head); i < bytes; i++)
            wrong += record[i] != (number & 255);
        cr_assert(eq(u32, wrong, 0));
        ring_pop(from);
    }
    cr_assert(ring_empty(&ring[0]) && ring_empty(&ring[1]));
}

static uint64_t rings_of(int doorbell)
{
    uint64_t count = 0;

    return read(doorbell, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

Test(area, a_touch_sets_the_bit_of_its_lane_and_wakes_only_a_sleeper)
{
    int doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    cr_assert(ge(int, doorbell, 0));
    wire_touch(area, 3, doorbell);
    wire_touch(area, 31, doorbell);
    wire_touch(area, 3, doorbell);
    cr_assert(eq(u32, atomic_load(&area->touched), UINT32_C(1) << 31 | 1u << 3));
    cr_assert(eq(u64, rings_of(doorbell), 0), "nobody slept");

    atomic_store(&area->asleep, 1);
    errno = EILSEQ;
    wire_touch(area, 3, doorbell); /* its bit is still set: the sleeper must be woken all the same */
    wire_touch(area, 4, doorbell);
    wire_touch(area, 5, doorbell);
    cr_assert(eq(int, errno, EILSEQ));
    cr_assert(eq(u64, rings_of(doorbell), 1), "one of them rings");
    cr_assert(eq(u32, atomic_load(&area->asleep), 0));
    cr_assert(eq(u32, atomic_load(&area->touched), UINT32_C(1) << 31 | 1u << 3 | 1u << 4 | 1u << 5));
    close(doorbell);
}

Test(area, a_touch_of_a_doorbell_that_is_gone_does_no_harm)
{
    atomic_store(&area->asleep, 1);
    errno = EILSEQ;
    wire_touch(area, 0, -1);
    cr_assert(eq(int, errno, EILSEQ));
    cr_assert(eq(u32, atomic_load(&area->touched), 1));
}
