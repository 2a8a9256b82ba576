/* SPDX-License-Identifier: Apache-2.0
 *
 * A program for `coissue verify`, whose kernels run on the simulated device: verify-client WHAT [PROCESSES]
 *
 *   add        100 launches that add, and the sum that they leave
 *   mixed      the same, and 3 launches whose parameters are too many for a pack
 *   wrong      says whether kernels are rewritten, as if one did something else then
 *   fails      exit status 3 after the launches
 *
 * In so many processes, one after the other, the first one last.
 */
#include "driver/driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAUNCHES = 100, LARGE_LAUNCHES = 3, LARGE_BYTES = 32000 };

static const char ptx[] = ".version 9.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry add(.param .u64 to, .param .u32 value)\n"
                          "{\n"
                          " .reg .b32 %r<4>;\n .reg .b64 %rd<3>;\n"
                          " ld.param.u64 %rd1, [to];\n ld.param.u32 %r1, [value];\n"
                          " cvta.to.global.u64 %rd2, %rd1;\n"
                          " ld.global.u32 %r2, [%rd2];\n add.s32 %r3, %r2, %r1;\n st.global.u32 [%rd2], %r3;\n"
                          " ret;\n"
                          "}\n"
                          ".visible .entry large(.param .u64 to, .param .align 4 .b8 more[32000])\n"
                          "{\n"
                          " .reg .b32 %r<2>;\n .reg .b64 %rd<3>;\n"
                          " ld.param.u64 %rd1, [to];\n ld.param.u32 %r1, [more+31996];\n"
                          " cvta.to.global.u64 %rd2, %rd1;\n st.global.u32 [%rd2+4], %r1;\n"
                          " ret;\n"
                          "}\n";

static struct cu_driver cu;

static void *look_up(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s: %s\n", what, cu_result_name(result));
    exit(1);
}

#define OK(call) check(call, #call)

static void launch(CUstream stream, CUdeviceptr sums, bool mixed)
{
    static int more[LARGE_BYTES / 4];
    CUfunction add, large;
    CUmodule module;

    more[LARGE_BYTES / 4 - 1] = 77;
    OK(cu.cuModuleLoadData(&module, ptx));
    OK(cu.cuModuleGetFunction(&add, module, "add"));
    OK(cu.cuModuleGetFunction(&large, module, "large"));
    for (int i = 1; i <= LAUNCHES; i++) {
        void *parameters[] = {&sums, &i};

        OK(cu.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    }
    for (int i = 0; mixed && i < LARGE_LAUNCHES; i++) {
        void *parameters[] = {&sums, more};

        OK(cu.cuLaunchKernel(large, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    }
}

static int run(const char *what)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int results[2] = {0};
    CUdeviceptr sums;
    CUcontext context;
    CUstream stream;

    if (!library || cu_driver_fill(&cu, look_up, library) == 0) {
        puts("no driver");
        return 1;
    }
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemAlloc_v2(&sums, sizeof(results)));
    OK(cu.cuMemcpyHtoD_v2(sums, results, sizeof(results)));
    launch(stream, sums, strcmp(what, "mixed") == 0);
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemcpyDtoH_v2(results, sums, sizeof(results)));
    printf("%d %d\n", results[0], results[1]);
    if (strcmp(what, "wrong") == 0)
        puts(getenv("COISSUE_VERIFY") ? "rewritten" : "as they are");
    return strcmp(what, "fails") == 0 ? 3 : 0;
}

int main(int count, char **arguments)
{
    if (count < 2)
        return 2;
    for (int processes = count > 2 ? atoi(arguments[2]) : 1; processes > 1; processes--) {
        pid_t child;

        fflush(stdout);
        child = fork();
        if (child == 0)
            return run(arguments[1]);
        waitpid(child, NULL, 0);
    }
    return run(arguments[1]);
}
