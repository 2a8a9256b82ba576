/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the CUDA driver interface that coissue needs, declared by us.
 *
 * Why not <cuda.h>: the project builds on machines without a toolkit, and the preloaded library must not depend on
 * which toolkit happens to be installed. Names and layouts are NVIDIA's ABI (CUDA 13.0); everything that coissue only
 * passes through is opaque here. Two checks keep this honest where a real cuda.h is present (tests/driver):
 * `entries-match-cuda-h` compiles entries.def against the real prototypes, and `layouts-match-cuda-h` compares the size
 * and the offsets of every structure defined below.
 *
 * Defining COISSUE_WITH_REAL_CUDA_H makes this header use <cuda.h> for the types instead (only those tests do so).
 */
#ifndef COISSUE_DRIVER_CUDA_API_H
#define COISSUE_DRIVER_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef COISSUE_WITH_REAL_CUDA_H
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#else

#define CU_HANDLES(H)                                                                                                  \
    H(CUcontext)                                                                                                       \
    H(CUmodule)                                                                                                        \
    H(CUfunction) H(CUkernel) H(CUlibrary) H(CUstream) H(CUevent) H(CUarray) H(CUmipmappedArray) H(CUtexref)           \
        H(CUsurfref) H(CUgraph) H(CUgraphNode) H(CUgraphExec) H(CUgraphicsResource) H(CUgreenCtx) H(CUlinkState)       \
            H(CUmemoryPool) H(CUuserObject) H(CUexternalMemory) H(CUexternalSemaphore) H(CUdevResourceDesc)            \
                H(CUasyncCallbackHandle) H(CUlogsCallbackHandle)
#define CU_HANDLE_TYPE(name) typedef struct name##_opaque *name;
CU_HANDLES(CU_HANDLE_TYPE)

#define CU_OPAQUE_STRUCTS(S)                                                                                           \
    S(CUDA_ARRAY3D_DESCRIPTOR)                                                                                         \
    S(CUDA_ARRAY3D_DESCRIPTOR_v1)                                                                                      \
    S(CUDA_ARRAY_DESCRIPTOR) S(CUDA_ARRAY_DESCRIPTOR_v1) S(CUDA_ARRAY_MEMORY_REQUIREMENTS)                             \
        S(CUDA_ARRAY_SPARSE_PROPERTIES) S(CUDA_BATCH_MEM_OP_NODE_PARAMS) S(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS)            \
            S(CUDA_EXT_SEM_WAIT_NODE_PARAMS) S(CUDA_LAUNCH_PARAMS) S(CUDA_MEMCPY3D_BATCH_OP)                           \
                S(CUDA_MEM_ALLOC_NODE_PARAMS) S(CUDA_RESOURCE_DESC) S(CUDA_RESOURCE_VIEW_DESC) S(CUDA_TEXTURE_DESC)    \
                    S(CUDA_EXTERNAL_MEMORY_BUFFER_DESC) S(CUDA_EXTERNAL_MEMORY_HANDLE_DESC)                            \
                        S(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC) S(CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC)            \
                            S(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS) S(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS)            \
                                S(CUDA_MEMCPY2D_v1) S(CUDA_MEMCPY3D_v1) S(CUDA_KERNEL_NODE_PARAMS_v1)                  \
                                    S(CUarrayMapInfo) S(CUcheckpointCheckpointArgs) S(CUcheckpointLockArgs)            \
                                        S(CUcheckpointRestoreArgs) S(CUcheckpointUnlockArgs) S(CUctxCreateParams)      \
                                            S(CUdevResource) S(CUexecAffinityParam) S(CUgraphNodeParams)               \
                                                S(CUmemDecompressParams) S(CUmemPoolPtrExportData)                     \
                                                    S(CUmulticastObjectProp) S(CUdevprop) S(CUtensorMap)
#define CU_OPAQUE_STRUCT(name) typedef struct name##_opaque name;
CU_OPAQUE_STRUCTS(CU_OPAQUE_STRUCT)

/* Enumerations of which coissue passes values through but names none. They are int-sized and unsigned in gcc's ABI. */
#define CU_PLAIN_ENUMS(E)                                                                                              \
    E(CUaddress_mode)                                                                                                  \
    E(CUarray_format)                                                                                                  \
    E(CUatomicOperation) E(CUcoredumpSettings) E(CUdevResourceType) E(CUdevice_P2PAttribute) E(CUexecAffinityType)     \
        E(CUfilter_mode) E(CUflushGPUDirectRDMAWritesScope) E(CUflushGPUDirectRDMAWritesTarget) E(CUfunc_cache)        \
            E(CUfunctionLoadingState) E(CUgraphExecUpdateResult) E(CUgraphMem_attribute) E(CUgraphNodeType)            \
                E(CUlibraryOption) E(CUlimit) E(CUmemAccess_flags) E(CUmemAllocationGranularity_flags)                 \
                    E(CUmemAllocationHandleType) E(CUmemAllocationType) E(CUmemPool_attribute) E(CUmemRangeHandleType) \
                        E(CUmem_advise) E(CUmem_range_attribute) E(CUmoduleLoadingMode)                                \
                            E(CUmulticastGranularity_flags) E(CUprocessState) E(CUsharedconfig) E(CUstreamAttrID)      \
                                E(CUtensorMapDataType) E(CUtensorMapFloatOOBfill) E(CUtensorMapIm2ColWideMode)         \
                                    E(CUtensorMapInterleave) E(CUtensorMapL2promotion) E(CUtensorMapSwizzle)           \
                                        E(CUjit_option) E(CUjitInputType) E(CUoutput_mode) E(CUkernelNodeAttrID)       \
                                            E(CUmemLocationType) E(CUdevice_attribute) E(CUfunction_attribute)         \
                                                E(CUpointer_attribute) E(CUdriverProcAddressQueryResult)               \
                                                    E(CUstreamCaptureStatus) E(CUstreamCaptureMode)                    \
                                                        E(CUlaunchAttributeID)
#define CU_PLAIN_ENUM(name) typedef unsigned int name;
CU_PLAIN_ENUMS(CU_PLAIN_ENUM)

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
typedef cuuint64_t CUgraphConditionalHandle;
typedef unsigned int CUlogIterator;

/* The result codes that coissue or its simulated device name. One table: value, name, and the driver's own words. */
#define CU_RESULTS(R)                                                                                                  \
    R(0, CUDA_SUCCESS, "no error")                                                                                     \
    R(1, CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                                 \
    R(2, CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                                    \
    R(3, CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                                           \
    R(4, CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                                             \
    R(34, CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library")                                                    \
    R(100, CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                                 \
    R(101, CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                                        \
    R(200, CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                                 \
    R(201, CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                                       \
    R(209, CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")                   \
    R(215, CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture")                                \
    R(216, CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "exclusive-thread device already in use by a different thread")          \
    R(218, CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed")                                                     \
    R(301, CUDA_ERROR_FILE_NOT_FOUND, "file not found")                                                                \
    R(304, CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS")                        \
    R(400, CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                                       \
    R(401, CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")                         \
    R(500, CUDA_ERROR_NOT_FOUND, "named symbol not found")                                                             \
    R(600, CUDA_ERROR_NOT_READY, "device not ready")                                                                   \
    R(700, CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                                     \
    R(701, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")                              \
    R(702, CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")                                       \
    R(704, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")                                   \
    R(705, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled")                                     \
    R(708, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "primary context is already active")                                     \
    R(709, CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                                    \
    R(710, CUDA_ERROR_ASSERT, "device-side assert triggered")                                                          \
    R(712, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped")   \
    R(713, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region")         \
    R(716, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address")                                                        \
    R(718, CUDA_ERROR_INVALID_PC, "invalid program counter")                                                           \
    R(719, CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                                     \
    R(720, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch")                           \
    R(800, CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                                        \
    R(801, CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                                        \
    R(900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")                  \
    R(901, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")           \
    R(902, CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences")         \
    R(903, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began")                \
    R(904, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                                   \
    R(905, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream")             \
    R(906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing stream")  \
    R(907, CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream")       \
    R(908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture from another thread")  \
    R(910, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,                                                                       \
      "the graph update was not performed because it included changes "                                                \
      "which violated constraints specific to instantiated graph update")                                              \
    R(912, CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster misconfiguration")                                                \
    R(999, CUDA_ERROR_UNKNOWN, "unknown error")
typedef enum cudaError_enum {
#define CU_RESULT_VALUE(value, name, text) name = value,
    CU_RESULTS(CU_RESULT_VALUE)
#undef CU_RESULT_VALUE
} CUresult;

/* Stream handles with a meaning of their own; the null stream is 0. */
#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4 };
enum { CU_EVENT_RECORD_DEFAULT = 0, CU_EVENT_RECORD_EXTERNAL = 1 };
enum {
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
};
enum { CU_STREAM_CAPTURE_MODE_GLOBAL = 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1, CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum { CU_STREAM_WRITE_VALUE_DEFAULT = 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1 };
enum {
    CU_STREAM_WAIT_VALUE_GEQ = 0,
    CU_STREAM_WAIT_VALUE_EQ = 1,
    CU_STREAM_WAIT_VALUE_AND = 2,
    CU_STREAM_WAIT_VALUE_NOR = 3
};
enum { CU_MEM_LOCATION_TYPE_DEVICE = 1, CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum { CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum { CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2, CU_MEMHOSTALLOC_WRITECOMBINED = 4 };
enum { CU_MEMHOSTREGISTER_PORTABLE = 1, CU_MEMHOSTREGISTER_DEVICEMAP = 2 };
enum {
    CU_GET_PROC_ADDRESS_DEFAULT = 0,
    CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2
};
enum {
    CU_GET_PROC_ADDRESS_SUCCESS = 0,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
};

#define CU_LAUNCH_PARAM_END ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)

enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
};
enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
};

/*
 * Launch attributes, all that exist in 13.0; facts on what each does to a deferred launch are in docs/architecture.md.
 */
enum {
    CU_LAUNCH_ATTRIBUTE_IGNORE = 0,
    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1,
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY = 3,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7,
    CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP = 9,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN = 10,
    CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION = 11,
    CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = 12,
    CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE = 13,
    CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 14,
    CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING = 16,
};

typedef union CUlaunchAttributeValue_union {
    char pad[64];
    int cooperative;
    int programmaticStreamSerializationAllowed;
    int priority;
    struct {
        unsigned int x, y, z;
    } clusterDim;
    uint64_t align_;
} CUlaunchAttributeValue;
typedef CUlaunchAttributeValue CUkernelNodeAttrValue;
typedef CUlaunchAttributeValue CUstreamAttrValue;

typedef struct CUlaunchAttribute_st {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef struct CUipcEventHandle_st {
    char reserved[64];
} CUipcEventHandle;
typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;
typedef struct CUmemLocation_st {
    CUmemLocationType type;
    int id;
} CUmemLocation;

typedef enum CUmemorytype_enum {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEMORYTYPE_ARRAY = 3,
    CU_MEMORYTYPE_UNIFIED = 4
} CUmemorytype;

typedef struct CUDA_MEMCPY2D_st {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct CUDA_MEMCPY3D_st {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
typedef struct CUDA_MEMCPY3D_PEER_opaque CUDA_MEMCPY3D_PEER;

typedef struct CUDA_KERNEL_NODE_PARAMS_st {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef struct CUDA_MEMSET_NODE_PARAMS_st {
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elementSize;
    size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

typedef void (*CUhostFn)(void *userData);
typedef struct CUDA_HOST_NODE_PARAMS_st {
    CUhostFn fn;
    void *userData;
} CUDA_HOST_NODE_PARAMS;

typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    unsigned int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct CUgraphEdgeData_st {
    unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

typedef struct CUgraphExecUpdateResultInfo_st {
    CUgraphExecUpdateResult result;
    CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo;

typedef union CUstreamBatchMemOpParams_union {
    unsigned int operation;
    struct {
        unsigned int operation;
        CUdeviceptr address;
        union {
            cuuint32_t value;
            cuuint64_t value64;
        };
        unsigned int flags;
        CUdeviceptr alias;
    } waitValue, writeValue;
    cuuint64_t pad[6];
} CUstreamBatchMemOpParams;

typedef struct CUmemAllocationProp_st {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType, gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;
typedef struct CUmemAccessDesc_st {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;
typedef struct CUmemPoolProps_st {
    CUmemAllocationType allocType;
    CUmemAllocationHandleType handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;
typedef struct CUmemcpyAttributes_opaque CUmemcpyAttributes;

typedef void (*CUstreamCallback)(CUstream hStream, CUresult status, void *userData);
typedef size_t (*CUoccupancyB2DSize)(int blockSize);
typedef void (*CUasyncCallback)(void *info, void *userData, CUasyncCallbackHandle callback);
typedef void (*CUlogsCallback)(void *data, unsigned int level, char *message, size_t length);

#endif /* COISSUE_WITH_REAL_CUDA_H */
#endif
