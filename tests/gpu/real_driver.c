/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: the real libcuda.so.1 has every function of our table, each at an address of its own unless the driver
 * itself gives two names to one function, and answers cuInit through a pointer that we looked up.
 */
#include "driver/driver.h"

#include <dlfcn.h>
#include <stdio.h>

static void *lookup(void *arg, const char *symbol)
{
    return dlsym(arg, symbol);
}

int main(void)
{
    static struct cu_driver driver;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int version = 0, devices = 0;

    if (!library) {
        printf("needs a GPU: %s\n", dlerror());
        return 77;
    }
    int found = cu_driver_fill(&driver, lookup, library);
    if (!driver.cuDriverGetVersion || driver.cuDriverGetVersion(&version) != CUDA_SUCCESS) {
        printf("cuDriverGetVersion gives no answer\n");
        return 1;
    }
    printf("driver version %d has %d of %d entries\n", version, found, CU_ENTRY_COUNT);
    CUresult result = driver.cuInit(0);
    if (result != CUDA_SUCCESS) {
        printf("cuInit: %s\n", cu_result_name(result));
        return 1;
    }
    if (driver.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices < 1) {
        printf("%d devices\n", devices);
        return 1;
    }
    if (version < 13000) {
        printf("the table is for driver version 13000 and up\n");
        return 77;
    }
    if (found == CU_ENTRY_COUNT)
        return 0;
    for (int i = 0; i < CU_ENTRY_COUNT; i++)
        if (!((void **)&driver)[i])
            printf("missing: %s\n", cu_entry_name(i));
    return 1;
}
