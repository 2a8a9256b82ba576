/* SPDX-License-Identifier: Apache-2.0
 *
 * A libcuda.so.1 that is out of order, for `coissue doctor`: FAKE_DRIVER says how.
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
