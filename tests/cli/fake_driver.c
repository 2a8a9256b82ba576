/* SPDX-License-Identifier: Apache-2.0
 *
 * A libcuda.so.1 that is out of order, for `coissue doctor`: FAKE_DRIVER says how. With FAKE_LIBRARIES it has what
 * rewritten kernels are loaded with, by name only.
 */
#include <stdlib.h>
#include <string.h>

#define FAKE __attribute__((visibility("default")))

FAKE int cuInit(unsigned int flags);
FAKE int cuDriverGetVersion(int *version);
FAKE int cuDeviceGetCount(int *count);
FAKE int cuDeviceGetName(char *name, int size, int device);

static int wants(const char *word)
{
    const char *how = getenv("FAKE_DRIVER");

    return how && strcmp(how, word) == 0;
}

int cuInit(unsigned int flags)
{
    (void)flags;
    if (wants("crash"))
        abort();
    return wants("no-device") ? 100 : 0; /* CUDA_ERROR_NO_DEVICE */
}

int cuDriverGetVersion(int *version)
{
    *version = 12040;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = wants("empty") ? 0 : 1;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device)
{
    (void)device;
    strncpy(name, "imaginary", (size_t)size);
    return 0;
}

#ifdef FAKE_LIBRARIES
#define BY_NAME(name)                                                                                                  \
    FAKE int name(void);                                                                                               \
    int name(void)                                                                                                     \
    {                                                                                                                  \
        return 1;                                                                                                      \
    }
BY_NAME(cuLibraryLoadData)
BY_NAME(cuLibraryUnload)
BY_NAME(cuLibraryGetKernel)
BY_NAME(cuKernelGetFunction)
BY_NAME(cuKernelGetAttribute)
BY_NAME(cuKernelSetAttribute)
BY_NAME(cuFuncGetAttribute)
BY_NAME(cuFuncGetParamInfo)
#endif
