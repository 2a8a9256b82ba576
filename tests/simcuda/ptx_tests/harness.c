/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *harness_read(const char *file, size_t *length)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", KERNELS_DIR, file);
    FILE *stream = fopen(path, "rb");
    cr_assert_not_null(stream, "cannot open %s: %s", path, strerror(errno));
    cr_assert_eq(fseek(stream, 0, SEEK_END), 0);
    long size = ftell(stream);
    cr_assert_gt(size, 0);
    rewind(stream);
    char *text = malloc((size_t)size + 1);
    cr_assert_not_null(text);
    cr_assert_eq(fread(text, 1, (size_t)size, stream), (size_t)size);
    text[size] = '\0';
    fclose(stream);
    *length = (size_t)size;
    return text;
}

static void place_globals(struct device *device)
{
    struct ptx_module_info info;
    ptx_module_info(device->module, &info);
    for (size_t i = 0; i < info.globals; i++) {
        const struct ptx_global *global = ptx_module_global(device->module, i);
        void *memory = device_alloc(device, global->size);
        device->ranges[device->range_count - 1].writable = !global->is_const;
        cr_assert_eq(ptx_instance_place_global(device->instance, i, (uint64_t)(uintptr_t)memory), 0);
    }
    cr_assert_eq(ptx_instance_initialise(device->instance), 0);
}

static void open_text(struct device *device, const char *what, const char *text, size_t length)
{
    char error[PTX_ERROR_TEXT_MAX];
    cr_assert_eq(ptx_module_create(text, length, NULL, &device->module, error, sizeof(error)), 0, "%s: %s", what,
                 error);
    cr_assert_eq(ptx_instance_create(device->module, &device->instance), 0);
    place_globals(device);
}

void device_open(struct device *device, const char *file)
{
    char name[128];
    size_t length;
    memset(device, 0, sizeof(*device));
    device->portable = strstr(file, ":portable") != NULL;
    snprintf(name, sizeof(name), "%.*s.ptx", (int)strcspn(file, ":"), file);
    char *text = harness_read(name, &length);
    open_text(device, name, text, length);
    free(text); /* the module must not need it any more */
}

void device_open_text(struct device *device, const char *text)
{
    memset(device, 0, sizeof(*device));
    open_text(device, "text", text, strlen(text));
}

void device_close(struct device *device)
{
    ptx_instance_destroy(device->instance);
    ptx_module_destroy(device->module);
    for (int i = 0; i < device->range_count; i++)
        free((void *)(uintptr_t)device->ranges[i].lo);
}

void *device_alloc(struct device *device, size_t bytes)
{
    size_t room = (bytes + 512 + 255) & ~(size_t)255;
    cr_assert_lt(device->range_count, DEVICE_RANGES_MAX);
    char *memory = aligned_alloc(256, room);
    cr_assert_not_null(memory);
    memset(memory, 0, bytes);
    memset(memory + bytes, 0xa5, room - bytes);
    device->ranges[device->range_count].lo = (uint64_t)(uintptr_t)memory;
    device->ranges[device->range_count].hi = (uint64_t)(uintptr_t)memory + bytes;
    device->ranges[device->range_count++].writable = true;
    return memory;
}

void *device_copy(struct device *device, const void *from, size_t bytes)
{
    void *memory = device_alloc(device, bytes);
    memcpy(memory, from, bytes);
    return memory;
}

static bool may_access(void *arg, uint64_t address, size_t bytes, bool write, struct ptx_range *range)
{
    struct device *device = arg;
    device->questions++;
    for (int i = 0; i < device->range_count; i++) {
        if (address >= device->ranges[i].lo && address < device->ranges[i].hi &&
            bytes <= device->ranges[i].hi - address) {
            range->lo = device->ranges[i].lo;
            range->hi = device->ranges[i].hi;
            return !write || device->ranges[i].writable;
        }
    }
    return false;
}

size_t device_prepare(struct device *device, const char *kernel, struct launch_size size, const void *const *args,
                      size_t count, struct ptx_launch *launch, void *params)
{
    long index = ptx_module_find_kernel(device->module, kernel);
    cr_assert_geq(index, 0, "no kernel %s", kernel);
    const struct ptx_kernel *k = ptx_module_kernel(device->module, (size_t)index);
    cr_assert_eq(k->param_count, count, "%s takes %u arguments", kernel, k->param_count);
    for (size_t i = 0; i < count; i++)
        memcpy((char *)params + k->params[i].offset, args[i], k->params[i].size);
    *launch = (struct ptx_launch){.dynamic_shared = size.shared,
                                  .params = params,
                                  .params_size = k->param_bytes,
                                  .may_access = may_access,
                                  .portable = device->portable,
                                  .arg = device};
    memcpy(launch->grid, size.grid, sizeof(size.grid));
    memcpy(launch->block, size.block, sizeof(size.block));
    return (size_t)index;
}

void device_run(struct device *device, const char *kernel, struct launch_size size, const void *const *args,
                size_t count)
{
    static char params[PTX_PARAM_BYTES_MAX];
    struct ptx_launch launch;
    struct ptx_fault fault;
    size_t index = device_prepare(device, kernel, size, args, count, &launch, params);
    int error = ptx_run(device->instance, index, &launch, &fault);
    cr_assert_eq(error, 0, "%s: error %d, %s", kernel, error, fault.text);
    cr_assert_eq(fault.kind, PTX_FAULT_NONE);
}

struct ptx_fault device_fault(struct device *device, const char *kernel, struct launch_size size,
                              const void *const *args, size_t count)
{
    static char params[PTX_PARAM_BYTES_MAX];
    struct ptx_launch launch;
    struct ptx_fault fault;
    size_t index = device_prepare(device, kernel, size, args, count, &launch, params);
    int error = ptx_run(device->instance, index, &launch, &fault);
    cr_assert_eq(error, -EFAULT, "%s: error %d, %s", kernel, error, fault.text);
    return fault;
}

uint32_t random32(uint32_t *state) /* xorshift32, Marsaglia */
{
    uint32_t x = *state ? *state : 2463534242u;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

float random_float(uint32_t *state)
{
    return ((float)(random32(state) >> 8) - 0x1p23f) * 0x1p-23f;
}
