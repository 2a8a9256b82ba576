/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/area.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(WIRE_LANES <= 32, "`touched` has a bit for each lane");

static size_t area_bytes(void)
{
    return wire_area_words() + WIRE_LANES * ring_memory(WIRE_RING_BYTES);
}

int wire_area_create(struct wire_area **area, int *fd)
{
    struct wire_area *made;
    int error, file = memfd_create("coissue-area", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (file < 0)
        return -errno;
    if (ftruncate(file, (off_t)area_bytes()) < 0 || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        goto fail;
    made = mmap(NULL, area_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (made == MAP_FAILED)
        goto fail;
    made->magic = WIRE_MAGIC;
    made->version = WIRE_VERSION;
    made->lanes = WIRE_LANES;
    made->bytes = area_bytes();
    *area = made;
    *fd = file;
    return 0;

fail:
    error = -errno;
    close(file);
    return error;
}

int wire_area_map(int fd, struct wire_area **area)
{
    struct wire_area *found;
    struct stat about;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &about) < 0 || (size_t)about.st_size != area_bytes())
        return -EPROTO;
    found = mmap(NULL, area_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (found == MAP_FAILED)
        return -errno;
    if (found->magic != WIRE_MAGIC || found->version != WIRE_VERSION || found->lanes != WIRE_LANES ||
        found->bytes != area_bytes()) {
        munmap(found, area_bytes());
        return -EPROTO;
    }
    *area = found;
    return 0;
}

void wire_area_unmap(struct wire_area *area)
{
    if (area)
        munmap(area, area_bytes());
}

void wire_ring(struct wire_area *area, uint32_t lane, struct ring *ring)
{
    unsigned char *memory = (unsigned char *)area + wire_area_words() + lane * ring_memory(WIRE_RING_BYTES);

    ring_attach(ring, &area->lane[lane].ends, memory, WIRE_RING_BYTES); /* cannot fail: aligned, a power of two */
}

void wire_touch(struct wire_area *area, uint32_t lane, int doorbell)
{
    uint32_t bit = UINT32_C(1) << lane;

    /*
     * What the broker should see was stored before. If the bit is still set here, the exchange that takes it comes
     * later and sees it; if the broker is about to sleep, it looks at `touched` after it stored `asleep`. Pairs with
     * the broker's fence between these two.
     */
    atomic_thread_fence(memory_order_seq_cst);
    if (!(atomic_load_explicit(&area->touched, memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(&area->touched, bit, memory_order_seq_cst);
    if (atomic_load_explicit(&area->asleep, memory_order_seq_cst) != 0 &&
        atomic_exchange_explicit(&area->asleep, 0, memory_order_seq_cst) != 0)
        wire_knock(doorbell);
}

void wire_knock(int doorbell)
{
    const uint64_t one = 1;
    int kept = errno;

    while (write(doorbell, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    errno = kept;
}
