/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a client shares: mapped here at the client's own address.
 *
 * Device memory lies in the lower part of the client's addresses, which are one reservation of the driver's; host
 * memory in the upper part (wire/message.h). The session's thread maps and unmaps; the device's thread looks ranges up,
 * under worker->lock. A range is in the table only while it is mapped.
 */
#include "broker/private.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* The first range that ends behind an address. */
static uint32_t find(const struct session *session, uint64_t address)
{
    uint32_t low = 0, high = session->range_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (session->ranges[middle].base + session->ranges[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool memory_holds(const struct session *session, uint64_t begin, uint64_t bytes)
{
    uint32_t at = find(session, begin);
    const struct range *range = at < session->range_count ? &session->ranges[at] : NULL;

    return range && begin >= range->base && bytes <= range->bytes - (begin - range->base);
}

static int add(struct session *session, const struct range *range)
{
    struct range *ranges = malloc((session->range_count + 1) * sizeof(*ranges)), *old = session->ranges;
    uint32_t at = find(session, range->base);

    if (!ranges)
        return -ENOMEM;
    if (at > 0)
        memcpy(ranges, old, at * sizeof(*ranges));
    ranges[at] = *range;
    if (session->range_count > at)
        memcpy(ranges + at + 1, old + at, (session->range_count - at) * sizeof(*ranges));
    lock_take(&session->worker->lock);
    session->ranges = ranges;
    session->range_count++;
    lock_drop(&session->worker->lock);
    free(old);
    return 0;
}

static void take_out(struct session *session, uint32_t at)
{
    lock_take(&session->worker->lock);
    session->range_count--;
    memmove(session->ranges + at, session->ranges + at + 1, (session->range_count - at) * sizeof(*session->ranges));
    lock_drop(&session->worker->lock);
}

static const char *place_fault(const struct session *session, uint64_t base, uint64_t bytes, bool device)
{
    uint64_t first = SLOT_FIRST + session->slot * SLOT_BYTES, split = first + wire_device_bytes(SLOT_BYTES);
    uint64_t low = device ? first : split, high = device ? split : first + SLOT_BYTES;
    uint32_t at = find(session, base);

    if (bytes == 0 || base % PAGE || bytes % PAGE || base < low || base >= high || bytes > high - base)
        return "memory outside the addresses of this client";
    if (at < session->range_count && session->ranges[at].base < base + bytes)
        return "memory where some is shared already";
    return session->range_count >= RANGES_MAX ? "more pieces of memory than can be shared" : NULL;
}

static int driver_error(char *text, size_t size, const char *call, CUresult result)
{
    snprintf(text, size, "%s: %s", call, cu_result_name(result));
    return -EIO;
}

static int map_device(struct session *session, struct range *range, int fd, char *text, size_t size)
{
    const struct cu_driver *driver = &session->worker->driver;
    CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, session->worker->device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = driver->cuMemImportFromShareableHandle(&range->handle, (void *)(intptr_t)fd,
                                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

    if (result != CUDA_SUCCESS)
        return driver_error(text, size, "cuMemImportFromShareableHandle", result);
    result = driver->cuMemMap(range->base, range->bytes, 0, range->handle, 0);
    if (result != CUDA_SUCCESS) {
        driver->cuMemRelease(range->handle);
        return driver_error(text, size, "cuMemMap", result);
    }
    result = driver->cuMemSetAccess(range->base, range->bytes, &access, 1);
    if (result == CUDA_SUCCESS)
        return 0;
    driver->cuMemUnmap(range->base, range->bytes);
    driver->cuMemRelease(range->handle);
    return driver_error(text, size, "cuMemSetAccess", result);
}

static int map_host(struct session *session, struct range *range, int fd, char *text, size_t size)
{
    const struct cu_driver *driver = &session->worker->driver;
    void *wanted = (void *)(uintptr_t)range->base, *memory;
    CUdeviceptr device = 0;
    struct stat about;
    CUresult result;
    int seals = fcntl(fd, F_GET_SEALS);

    /* It must not shrink under the driver. */
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &about) < 0 || (uint64_t)about.st_size < range->bytes) {
        snprintf(text, size, "host memory that is not a sealed memfd of that size");
        return -EINVAL;
    }
    memory = mmap(wanted, range->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    if (memory != wanted) {
        if (memory != MAP_FAILED)
            munmap(memory, range->bytes);
        snprintf(text, size, "that address is not free in the broker");
        return -EADDRINUSE;
    }
    result =
        driver->cuMemHostRegister_v2(memory, range->bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result != CUDA_SUCCESS) {
        munmap(memory, range->bytes);
        return driver_error(text, size, "cuMemHostRegister", result);
    }
    result = driver->cuMemHostGetDevicePointer_v2(&device, memory, 0);
    if (result == CUDA_SUCCESS && device == range->base)
        return 0;
    driver->cuMemHostUnregister(memory);
    munmap(memory, range->bytes);
    snprintf(text, size, "the device has host memory at another address");
    return -EADDRNOTAVAIL;
}

static void unmap(const struct session *session, const struct range *range)
{
    const struct cu_driver *driver = &session->worker->driver;

    if (range->handle) {
        driver->cuMemUnmap(range->base, range->bytes);
        driver->cuMemRelease(range->handle);
    } else {
        driver->cuMemHostUnregister((void *)(uintptr_t)range->base);
        munmap((void *)(uintptr_t)range->base, range->bytes);
    }
}

int memory_share(struct session *session, const struct wire_request *request, int fd, char *text, size_t size)
{
    struct range range = {.base = request->memory.base, .bytes = request->memory.bytes};
    bool device = request->memory.kind == WIRE_DEVICE_MEMORY;
    const char *fault = fd < 0 ? "memory without a descriptor"
                        : request->memory.kind > WIRE_HOST_MEMORY
                            ? "memory of unknown kind"
                            : place_fault(session, range.base, range.bytes, device);
    int error = -EINVAL;

    if (fault)
        snprintf(text, size, "%s", fault);
    else
        error = device ? map_device(session, &range, fd, text, size) : map_host(session, &range, fd, text, size);
    if (fd >= 0)
        close(fd);
    if (error < 0)
        return error;
    error = add(session, &range);
    if (error < 0)
        unmap(session, &range);
    return error;
}

int memory_forget(struct session *session, uint64_t base, uint64_t bytes)
{
    uint32_t at = find(session, base);
    struct range range;

    if (at >= session->range_count || session->ranges[at].base != base || session->ranges[at].bytes != bytes)
        return -ENOENT;
    range = session->ranges[at];
    take_out(session, at);
    unmap(session, &range);
    return 0;
}

void memory_forget_all(struct session *session)
{
    while (session->range_count > 0)
        memory_forget(session, session->ranges[0].base, session->ranges[0].bytes);
    free(session->ranges);
    session->ranges = NULL;
}
