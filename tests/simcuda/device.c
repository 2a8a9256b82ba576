/* SPDX-License-Identifier: Apache-2.0
 *
 * The device table and what can be asked about devices.
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>
#include <string.h>

static const struct sim_device_row rows[] = {
#define SIM_DEVICE(key_, name_, major_, minor_, sms_, threads_, blocks_, regs_, shared_, optin_, clock_, mclock_,      \
                   bus_, memory_, l2_, engines_, cluster_, tensor_, pci_)                                              \
    {.key = key_,                                                                                                      \
     .name = name_,                                                                                                    \
     .major = major_,                                                                                                  \
     .minor = minor_,                                                                                                  \
     .sms = sms_,                                                                                                      \
     .max_threads_per_sm = threads_,                                                                                   \
     .max_blocks_per_sm = blocks_,                                                                                     \
     .regs_per_sm = regs_,                                                                                             \
     .shared_per_sm = shared_,                                                                                         \
     .shared_optin = optin_,                                                                                           \
     .shared_reserved = 1024,                                                                                          \
     .clock_khz = clock_,                                                                                              \
     .memory_clock_khz = mclock_,                                                                                      \
     .bus_bits = bus_,                                                                                                 \
     .memory = memory_,                                                                                                \
     .l2 = l2_,                                                                                                        \
     .async_engines = engines_,                                                                                        \
     .cluster = cluster_,                                                                                              \
     .tensor_map = tensor_,                                                                                            \
     .pci_device = pci_},
#include "tests/simcuda/devices.def"
};

CUresult sim_devices_create(void)
{
    const char *key = getenv("SIMCUDA_DEVICE");
    const struct sim_device_row *row = NULL;

    if (!key || !*key)
        key = "h200";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].key, key) == 0)
            row = &rows[i];
    if (!row) {
        sim_loud(rows, "SIMCUDA_DEVICE: '%s' is not h200, a100, l4 or b200", key);
        return CUDA_ERROR_NO_DEVICE;
    }
    sim.device_count = sim_env_int("SIMCUDA_DEVICES", 1, 0, 16);
    if (sim.device_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    sim.devices = calloc((size_t)sim.device_count, sizeof(*sim.devices));
    if (!sim.devices)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < sim.device_count; i++) {
        struct sim_device *device = &sim.devices[i];

        device->ordinal = i;
        device->row = row;
        device->default_pool = sim_object_create(SIM_POOL, sizeof(struct sim_pool));
        if (!device->default_pool)
            return CUDA_ERROR_OUT_OF_MEMORY;
        device->default_pool->device = device;
        device->default_pool->is_default = true;
        for (int k = 1; k <= 3; k++) /* CU_MEMPOOL_ATTR_REUSE_* are on */
            device->default_pool->attributes[k] = 1;
        device->pool = device->default_pool;
    }
    return CUDA_SUCCESS;
}

CUresult sim_device_get(CUdevice ordinal, struct sim_device **device)
{
    if (ordinal < 0 || ordinal >= sim.device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = &sim.devices[ordinal];
    return CUDA_SUCCESS;
}

/* Numbers without a name here are those of CUdevice_attribute in cuda.h. */
int sim_device_attribute(const struct sim_device *device, CUdevice_attribute attribute, int *value)
{
    const struct sim_device_row *row = device->row;
    bool hopper = row->major >= 9;

    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        *value = 1024;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        *value = 1024;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        *value = 64;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        *value = 2147483647;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        *value = 65535;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        *value = 65535;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        *value = 49152;
        return 0;
    case 9 /* TOTAL_CONSTANT_MEMORY */:
        *value = 65536;
        return 0;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *value = 32;
        return 0;
    case 11 /* MAX_PITCH */:
        *value = 2147483647;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        *value = 65536;
        return 0;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *value = row->clock_khz;
        return 0;
    case 14 /* TEXTURE_ALIGNMENT */:
        *value = 512;
        return 0;
    case 15 /* GPU_OVERLAP */:
        *value = 1;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = row->sms;
        return 0;
    case 17 /* KERNEL_EXEC_TIMEOUT */:
        *value = 0;
        return 0;
    case 18 /* INTEGRATED */:
        *value = 0;
        return 0;
    case 19 /* CAN_MAP_HOST_MEMORY */:
        *value = 1;
        return 0;
    case 20 /* COMPUTE_MODE */:
        *value = 0;
        return 0;
    case 21:
        *value = 131072;
        return 0;
    case 22:
        *value = 131072;
        return 0;
    case 23:
        *value = 65536;
        return 0;
    case 24:
    case 25:
    case 26:
        *value = 16384;
        return 0;
    case 27:
    case 28:
        *value = 32768;
        return 0;
    case 29:
        *value = 2048;
        return 0;
    case 30 /* SURFACE_ALIGNMENT */:
        *value = 512;
        return 0;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
        *value = 1;
        return 0;
    case 32 /* ECC_ENABLED */:
        *value = 1;
        return 0;
    case 33 /* PCI_BUS_ID */:
        *value = 1 + device->ordinal;
        return 0;
    case 34 /* PCI_DEVICE_ID */:
        *value = 0;
        return 0;
    case 35 /* TCC_DRIVER */:
        *value = 0;
        return 0;
    case 36 /* MEMORY_CLOCK_RATE */:
        *value = row->memory_clock_khz;
        return 0;
    case 37 /* GLOBAL_MEMORY_BUS_WIDTH */:
        *value = row->bus_bits;
        return 0;
    case 38 /* L2_CACHE_SIZE */:
        *value = (int)row->l2;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = row->max_threads_per_sm;
        return 0;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        *value = row->async_engines;
        return 0;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        *value = 1;
        return 0;
    case 42:
        *value = 32768;
        return 0;
    case 43:
        *value = 2048;
        return 0;
    case 44:
        *value = 1;
        return 0;
    case 45:
    case 46:
        *value = 32768;
        return 0;
    case 47:
    case 48:
        *value = 8192;
        return 0;
    case 49:
        *value = 32768;
        return 0;
    case 50 /* PCI_DOMAIN_ID */:
        *value = 0;
        return 0;
    case 51 /* TEXTURE_PITCH_ALIGNMENT */:
        *value = 32;
        return 0;
    case 52:
    case 53:
        *value = 32768;
        return 0;
    case 54:
        *value = 2046;
        return 0;
    case 55:
        *value = 32768;
        return 0;
    case 56:
        *value = 131072;
        return 0;
    case 57:
        *value = 65536;
        return 0;
    case 58:
    case 59:
    case 60:
        *value = 16384;
        return 0;
    case 61:
        *value = 32768;
        return 0;
    case 62:
        *value = 2048;
        return 0;
    case 63:
    case 64:
        *value = 32768;
        return 0;
    case 65:
        *value = 2048;
        return 0;
    case 66:
    case 67:
        *value = 32768;
        return 0;
    case 68:
        *value = 2046;
        return 0;
    case 69:
        *value = 268435456;
        return 0;
    case 70:
        *value = 131072;
        return 0;
    case 71:
        *value = 65000;
        return 0;
    case 72:
        *value = 2097120;
        return 0;
    case 73:
    case 74:
        *value = 32768;
        return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = row->major;
        return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = row->minor;
        return 0;
    case 77:
        *value = 32768;
        return 0;
    case 78 /* STREAM_PRIORITIES_SUPPORTED */:
        *value = 1;
        return 0;
    case 79:
    case 80:
        *value = 1;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        *value = row->shared_per_sm;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        *value = row->regs_per_sm;
        return 0;
    case 83 /* MANAGED_MEMORY */:
        *value = 1;
        return 0;
    case 84:
        *value = 0;
        return 0;
    case 85:
        *value = device->ordinal;
        return 0;
    case 86 /* HOST_NATIVE_ATOMIC_SUPPORTED */:
        *value = 0;
        return 0;
    case 87 /* SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO */:
        *value = row->minor == 9 ? 64 : 2;
        return 0;
    case 88 /* PAGEABLE_MEMORY_ACCESS */:
        *value = 0;
        return 0; /* a choice of ours: wrong pointers shall fault */
    case 89 /* CONCURRENT_MANAGED_ACCESS */:
        *value = 1;
        return 0;
    case 90 /* COMPUTE_PREEMPTION_SUPPORTED */:
        *value = 1;
        return 0;
    case 91 /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */:
        *value = 1;
        return 0;
    case 92:
    case 93:
    case 94:
        *value = 0;
        return 0;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
        *value = 1;
        return 0;
    case 96 /* COOPERATIVE_MULTI_DEVICE_LAUNCH */:
        *value = 0;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = row->shared_optin;
        return 0;
    case 98 /* CAN_FLUSH_REMOTE_WRITES */:
        *value = 0;
        return 0;
    case 99 /* HOST_REGISTER_SUPPORTED */:
        *value = 1;
        return 0;
    case 100:
    case 101:
        *value = 0;
        return 0;
    case 102 /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */:
        *value = 1;
        return 0;
    case 103 /* POSIX_FILE_DESCRIPTOR */:
        *value = 1;
        return 0;
    case 104:
    case 105:
        *value = 0;
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        *value = row->max_blocks_per_sm;
        return 0;
    case 107 /* GENERIC_COMPRESSION_SUPPORTED */:
        *value = 0;
        return 0;
    case 108:
        *value = (int)(row->l2 / 8 * 5);
        return 0;
    case 109:
        *value = 134217728;
        return 0;
    case 110:
        *value = 0;
        return 0;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        *value = row->shared_reserved;
        return 0;
    case 112:
        *value = 0;
        return 0;
    case 113:
        *value = 0;
        return 0;
    case 114:
        *value = 0;
        return 0;
    case 115 /* MEMORY_POOLS_SUPPORTED */:
        *value = 1;
        return 0;
    case 116:
    case 117:
    case 118:
        *value = 0;
        return 0;
    case 119 /* MEMPOOL_SUPPORTED_HANDLE_TYPES */:
        *value = 0;
        return 0;
    case 120 /* CLUSTER_LAUNCH */:
        *value = row->cluster > 0;
        return 0;
    case 121:
        *value = 0;
        return 0;
    case 122 /* CAN_USE_64_BIT_STREAM_MEM_OPS */:
        *value = 1;
        return 0;
    case 123 /* CAN_USE_STREAM_WAIT_VALUE_NOR */:
        *value = 1;
        return 0;
    case 124 /* DMA_BUF_SUPPORTED */:
        *value = 0;
        return 0;
    case 125 /* IPC_EVENT_SUPPORTED */:
        *value = 0;
        return 0;
    case 126 /* MEM_SYNC_DOMAIN_COUNT */:
        *value = hopper ? 4 : 1;
        return 0;
    case 127 /* TENSOR_MAP_ACCESS_SUPPORTED */:
        *value = 0;
        return 0; /* cuTensorMapEncode* are stubs */
    case 128 /* FABRIC */:
        *value = 0;
        return 0;
    case 129:
        *value = 0;
        return 0;
    case 130:
        *value = 0;
        return 0;
    case 131:
        *value = -1;
        return 0;
    case 132 /* MULTICAST_SUPPORTED */:
        *value = 0;
        return 0;
    case 133 /* MPS_ENABLED */:
        *value = 0;
        return 0;
    case 134 /* HOST_NUMA_ID */:
        *value = 0;
        return 0;
    case 135:
    case 136:
    case 137:
    case 138:
        *value = 0;
        return 0;
    case 139:
        *value = (int)(row->pci_device << 16 | 0x10de);
        return 0;
    case 140:
        *value = 0x10de;
        return 0;
    case 141:
    case 142:
    case 143:
    case 144:
    case 145:
    case 146:
    case 147:
        *value = 0;
        return 0;
    default:
        return -1;
    }
}

CUresult sim_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    struct sim_device *device;
    CUresult result = sim_device_get(dev, &device);

    if (!pi)
        return CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    if (sim_device_attribute(device, attrib, pi)) {
        sim_loud(&rows[attrib % 4], "cuDeviceGetAttribute: attribute %u is unknown", attrib);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (ordinal < 0 || ordinal >= sim.device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetCount(int *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim.device_count;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int len, CUdevice dev)
{
    struct sim_device *device;
    CUresult result = sim_device_get(dev, &device);

    if (result)
        return result;
    if (!name || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)len, "%s", device->row->name);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    struct sim_device *device;
    CUresult result = sim_device_get(dev, &device);

    if (result)
        return result;
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, "simcuda device \0", 16);
    uuid->bytes[15] = (char)device->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    return sim_cuDeviceGetUuid_v2(uuid, dev);
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    struct sim_device *device;
    CUresult result = sim_device_get(dev, &device);

    if (result)
        return result;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = device->row->memory;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    struct sim_device *device;
    CUresult result = sim_device_get(dev, &device);

    if (result)
        return result;
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = device->row->major;
    *minor = device->row->minor;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    struct sim_device *device;
    CUresult result = sim_device_get(dev, &device);

    if (result)
        return result;
    if (!pciBusId || len < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", 1 + device->ordinal);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    unsigned domain = 0, bus = 0, slot = 0;

    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3) {
        domain = 0;
        if (sscanf(pciBusId, "%x:%x", &bus, &slot) != 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (domain || slot || bus < 1 || bus > (unsigned)sim.device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = (int)bus - 1;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    /* Windows only; the driver on Linux says so in this way. Modelled. */
    (void)luid;
    (void)deviceNodeMask;
    (void)dev;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format, unsigned numChannels,
                                                CUdevice dev)
{
    struct sim_device *device;
    CUresult result = sim_device_get(dev, &device);

    (void)format;
    if (result)
        return result;
    if (!maxWidthInElements || numChannels == 0 || numChannels > 4)
        return CUDA_ERROR_INVALID_VALUE;
    *maxWidthInElements = 268435456;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
    struct sim_device *device;
    CUresult result = sim_device_get(dev, &device);

    (void)type;
    if (result)
        return result;
    if (!pi)
        return CUDA_ERROR_INVALID_VALUE;
    *pi = 0; /* MPS only */
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    struct sim_device *device;
    CUresult result = sim_device_get(dev, &device);

    if (!result)
        result = sim_device_get(peerDev, &device);
    if (result)
        return result;
    if (!canAccessPeer)
        return CUDA_ERROR_INVALID_VALUE;
    *canAccessPeer = dev != peerDev;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
    struct sim_device *device;
    CUresult result = sim_device_get(srcDevice, &device);

    if (!result)
        result = sim_device_get(dstDevice, &device);
    if (result)
        return result;
    if (!value || srcDevice == dstDevice)
        return srcDevice == dstDevice ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    switch (attrib) {
    case 1:
        *value = 0;
        return CUDA_SUCCESS; /* PERFORMANCE_RANK */
    case 2:
        *value = 1;
        return CUDA_SUCCESS; /* ACCESS_SUPPORTED */
    case 3:
        *value = 1;
        return CUDA_SUCCESS; /* NATIVE_ATOMIC_SUPPORTED */
    case 4:
        *value = 0;
        return CUDA_SUCCESS; /* CUDA_ARRAY_ACCESS_SUPPORTED */
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
    struct sim_ctx *ctx;

    (void)target;
    (void)scope;
    SIM_GUARD;
    return sim_context(&ctx);
}
