/* SPDX-License-Identifier: Apache-2.0
 *
 * Section A: every launch must come into the library, by whatever name and version it is asked for, and nothing else
 * may. Traps 1, 2, 3, 5, 6.
 */
#include "tests/traps/client.h"
#include "tests/traps/helpers.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void *resolve(const char *name, int version, unsigned flags)
{
    CUdriverProcAddressQueryResult status = 99;
    void *found = NULL;
    CUresult result = cu.cuGetProcAddress_v2(name, &found, version, flags, &status);

    EXPECT(result == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS && found,
           "%s of version %d, flags %u: result %d, status %u", name, version, flags, (int)result, status);
    return found;
}

static void resolver_and_itself(void)
{
    static const struct {
        const char *name;
        int version;
        unsigned flags;
    } asked[] = {
        {"cuLaunchKernel", 4000, 0},    {"cuLaunchKernel", 7000, 2},      {"cuLaunchKernelEx", 11060, 0},
        {"cuLaunchKernelEx", 11060, 2}, {"cuGetProcAddress", 11030, 0},   {"cuGetProcAddress", 12000, 0},
        {"cuEventRecord", 2000, 0},     {"cuStreamSynchronize", 7000, 2}, {"cuCtxSynchronize", 13000, 0},
    };
    void *library = client_open();

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        EXPECT(client_in_shim(resolve(asked[i].name, asked[i].version, asked[i].flags)) == client_shim(),
               "%s of version %d, flags %u leads to the wrong place", asked[i].name, asked[i].version, asked[i].flags);
    EXPECT(client_in_shim(dlsym(library, "cuLaunchKernel")) == client_shim(), "dlsym of cuLaunchKernel");
    EXPECT(client_in_shim(dlsym(library, "cuLaunchKernel_ptsz")) == client_shim(), "dlsym of cuLaunchKernel_ptsz");
    EXPECT(!client_in_shim(dlsym(library, "cuDeviceGetName")), "cuDeviceGetName is nobody's business");
}

/* From the first form, of CUDA 11.3, to the second, and from there to all the rest: each asked of the one before. */
static void resolver_from_resolver(void)
{
    typeof(cu.cuGetProcAddress) first;
    typeof(cu.cuGetProcAddress_v2) second = NULL;
    CUdeviceptr p;

    client_open();
    first = (typeof(first))resolve("cuGetProcAddress", 11030, 0);
    OK(first("cuGetProcAddress", (void **)&second, 12000, 0));
    EXPECT(second, "the old resolver does not know the new one");
    cu.cuLaunchKernel = NULL;
    OK(second("cuLaunchKernel", (void **)&cu.cuLaunchKernel, 12010, 0, NULL)); /* no status wanted */
    client_begin();
    p = client_ints(1);
    client_hold();
    launch_store(client_stream(CU_STREAM_NON_BLOCKING), p, 5);
    client_still_held("store", 1);
    client_expect_held(2);
    client_finish();
    EXPECT_INT(client_read(p), 5, "what the launched kernel stored");
}

/* A name that no driver has, in both forms, which say so differently. */
static void missing_stays_missing(void)
{
    CUdriverProcAddressQueryResult status = 99;
    typeof(cu.cuGetProcAddress) first;
    void *found = &status;
    void *library = client_open();

    first = (typeof(first))resolve("cuGetProcAddress", 11030, 0);
    GIVES(CUDA_ERROR_NOT_FOUND, first("cuNoSuchFunction", &found, 13000, 0));
    OK(cu.cuGetProcAddress_v2("cuNoSuchFunction", &found, 13000, 0, &status));
    EXPECT_INT(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, "the status of a name that is missing");
    EXPECT(!found, "a name that is missing has an address");
    dlerror();
    EXPECT(!dlsym(library, "cuLaunchKernel_v99"), "dlsym knows a name that is missing");
    EXPECT(dlerror(), "dlsym of a missing name leaves no message");
    client_expect_none_held();
}

/* --- 2: the ABI that was asked for --- */

static void synchronize_versions(void)
{
    typeof(cu.cuCtxSynchronize) plain = (typeof(plain))resolve("cuCtxSynchronize", 2000, 0);
    typeof(cu.cuCtxSynchronize_v2) named = (typeof(named))resolve("cuCtxSynchronize", 13000, 0);
    CUdeviceptr p = client_ints(1);
    CUcontext popped;

    client_hold();
    launch_store(client_stream(CU_STREAM_NON_BLOCKING), p, 1);
    client_still_held("store", 1);
    client_release();
    OK(cu.cuCtxPopCurrent_v2(&popped));
    /* Now only the form that names the context has one. */
    GIVES(CUDA_ERROR_INVALID_CONTEXT, plain());
    OK(named(client_context));
    client_before("cuLaunchKernel", "store", "cuCtxSynchronize_v2", NULL);
    OK(cu.cuCtxPushCurrent_v2(client_context));
    OK(plain());
    EXPECT_INT(client_read(p), 1, "the store before the synchronisation");
    client_expect_held(2);
}

static void device_versions(void)
{
    typeof(cu.cuCtxGetDevice) plain = (typeof(plain))resolve("cuCtxGetDevice", 2000, 0);
    typeof(cu.cuCtxGetDevice_v2) named = (typeof(named))resolve("cuCtxGetDevice", 13000, 0);
    CUdevice device = -1;
    CUcontext popped;

    OK(cu.cuCtxPopCurrent_v2(&popped));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, plain(&device));
    OK(named(&device, client_context));
    EXPECT_INT(device, client_device, "the device of the context");
    OK(cu.cuCtxPushCurrent_v2(client_context));
    OK(plain(&device));
    client_expect_none_held();
}

static void capture_versions(void)
{
    CUresult (*begin_1)(CUstream) = (CUresult(*)(CUstream))resolve("cuStreamBeginCapture", 10000, 0);
    CUresult (*begin_2)(CUstream, CUstreamCaptureMode) =
        (CUresult(*)(CUstream, CUstreamCaptureMode))resolve("cuStreamBeginCapture", 10010, 0);
    CUresult (*info)(CUstream, CUstreamCaptureStatus *, cuuint64_t *) =
        (CUresult(*)(CUstream, CUstreamCaptureStatus *, cuuint64_t *))resolve("cuStreamGetCaptureInfo", 10010, 0);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);

    for (int form = 1; form <= 2; form++) {
        CUstreamCaptureStatus status = 99;
        cuuint64_t id;
        CUgraph graph;

        client_hold();
        launch_add1(stream, p);
        OK(form == 1 ? begin_1(stream) : begin_2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(info(stream, &status, &id));
        EXPECT_INT(status, CU_STREAM_CAPTURE_STATUS_ACTIVE, "the status of a stream that captures");
        launch_add1(stream, p);
        OK(cu.cuStreamEndCapture(stream, &graph));
        client_release();
        client_wait(stream);
        EXPECT_INT(client_read(p), form, "launches that ran outside of the captures");
        OK(cu.cuGraphDestroy(graph));
    }
    client_expect_held(2);
    client_expect_home("CAPTURE", 2);
}

/* Frameworks ask for the version that they were built with. */
static void launches_of_all_versions(void)
{
    static const int versions[] = {4000, 11080, 12010, 12080, 13000};
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(8);
    int count = sizeof(versions) / sizeof(versions[0]);

    client_hold();
    for (int i = 0; i < count; i++) {
        cu.cuLaunchKernel = (typeof(cu.cuLaunchKernel))resolve("cuLaunchKernel", versions[i], 0);
        EXPECT(client_in_shim((void *)cu.cuLaunchKernel) == client_shim(), "version %d", versions[i]);
        launch_store(stream, p + 4 * (CUdeviceptr)i, 10 + i);
    }
    client_still_held("store", 1);
    client_finish();
    for (int i = 0; i < count; i++)
        EXPECT_INT(client_read(p + 4 * (CUdeviceptr)i), 10 + i, "a store");
    client_expect_held(count + 1);
}

/* --- 3: dlsym --- */

static void foreign_functions(void)
{
    const char *path = getenv("TRAPS_DECOY");
    void *library = client_open();
    int (*init)(unsigned int);
    void *decoy;

    EXPECT(path, "TRAPS_DECOY is not set");
    decoy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT(decoy, "%s", dlerror());
    init = (int (*)(unsigned int))dlsym(decoy, "cuInit");
    EXPECT(init, "%s", dlerror());
    EXPECT_INT(init(7), 4707, "what the other library's own cuInit answers");
    EXPECT(!client_in_shim(dlsym(decoy, "cuEventRecord")), "a function of another library was replaced");
    dlerror();
    EXPECT(!dlsym(decoy, "cuLaunchKernel"), "the other library has no cuLaunchKernel");
    EXPECT(dlerror(), "dlsym of what the handle does not have leaves no message");
    /* Names that only begin like the driver's. */
    EXPECT(!dlsym(RTLD_DEFAULT, "cudnnCreate") && !dlsym(RTLD_DEFAULT, "cublasCreate_v2"), "nobody has these");
    EXPECT(!dlsym(library, "cudaMalloc") && !dlsym(library, "cuda_nothing"), "the driver does not have these");
    client_expect_none_held();
}

/* RTLD_NEXT and RTLD_DEFAULT are relative to the caller, which must stay the caller. */
static void relative_lookups(void)
{
    EXPECT_INT(traps_probe_value(), 42, "the function of the library that this program is linked with");
    EXPECT(!traps_probe_next(), "the probe found a next definition, which can only be its own");
    EXPECT(dlsym(RTLD_DEFAULT, "traps_probe_value") == (void *)traps_probe_value, "RTLD_DEFAULT");
    EXPECT(dlsym(RTLD_NEXT, "traps_probe_value") == (void *)traps_probe_value, "RTLD_NEXT of the program");
    EXPECT(dlsym(RTLD_DEFAULT, "malloc") != NULL, "malloc");
    client_expect_none_held();
}

/* Nothing has loaded the driver: who asks whether there is one must be told the truth. */
static void no_driver_yet(void)
{
    EXPECT(!dlsym(RTLD_DEFAULT, "cuInit"), "there is a cuInit before the driver was loaded");
    EXPECT(!dlsym(RTLD_DEFAULT, "cuLaunchKernel"), "there is a cuLaunchKernel before the driver was loaded");
    client_open();
    client_begin();
    client_finish();
    client_expect_none_held();
}

static void held_and_right(void)
{
    CUdeviceptr p = client_ints(1);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);

    client_hold();
    for (int i = 0; i < 10; i++)
        launch_twice_plus(stream, p, i % 2);
    client_still_held("twice_plus", 1);
    client_finish();
    EXPECT_INT(client_read(p), 341, "ten steps in order");
    client_expect_held(11);
}

static void beside_another_interposer(void)
{
    int (*interposed)(void);

    client_open();
    interposed = (int (*)(void))dlsym(RTLD_DEFAULT, "traps_interposed");
    EXPECT(interposed, "the other interposer is not loaded");
    /* One behind coissue sees look-ups only if its dlsym has the version of libc's, which is what dlvsym finds. */
    EXPECT(interposed() > 0 || getenv("TRAPS_BYPASSED"), "the other interposer saw no look-up");
    client_begin();
    held_and_right();
    client_finish();
}

/* --- 5: kernels without a context --- */

static void context_free_kernels(void)
{
    CUdeviceptr p = client_ints(2);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUlibrary library;
    CUkernel kernel;

    for (int round = 0; round < 3; round++) {
        int value = 70 + round;
        CUdeviceptr q = p + sizeof(int);
        void *both[] = {&p, &value};

        OK(cu.cuLibraryLoadData(&library, client_ptx(), NULL, NULL, 0, NULL, NULL, 0));
        OK(cu.cuLibraryGetKernel(&kernel, library, "store"));
        /* The first launch loads the code, for which the driver waits until the device is idle. */
        OK(client_launch((CUfunction)kernel, 1, 1, 0, stream, both));
        client_wait(stream);
        client_hold();
        value += 10;
        OK(client_launch((CUfunction)kernel, 1, 1, 0, stream, both));
        value = -1;
        if (round == 0)
            client_still_held("store", 2);
        /* A kernel of other parameters from the same library, which may get a handle of the round before. */
        OK(cu.cuLibraryGetKernel(&kernel, library, "copy_int"));
        LAUNCH((CUfunction)kernel, 1, 1, stream, &q, &p);
        client_release();
        OK(cu.cuLibraryUnload(library));
        client_wait(stream);
        EXPECT_INT(client_read(p), 80 + round, "what a CUkernel stored");
        EXPECT_INT(client_read(q), 80 + round, "what a second CUkernel copied");
    }
    client_expect_held(12);
}

/* --- 6: other ways to the driver --- */

static void deep_binding(void)
{
    client_open_with(RTLD_NOW | RTLD_DEEPBIND);
    client_begin();
    held_and_right();
    client_finish();
}

static const struct client_scenario scenarios[] = {
    {"trap-01-the-resolver-and-its-own-name-lead-into-the-library", resolver_and_itself, true},
    {"trap-01-a-resolver-that-the-resolver-gave-works", resolver_from_resolver, true},
    {"trap-01-names-that-the-driver-lacks-stay-missing", missing_stays_missing, true},
    {"trap-02-both-forms-of-context-synchronisation-keep-their-abi", synchronize_versions, false},
    {"trap-02-both-forms-of-the-device-query-keep-their-abi", device_versions, false},
    {"trap-02-old-and-new-forms-of-capture-keep-their-abi", capture_versions, false},
    {"trap-02-a-launch-function-of-any-version-works", launches_of_all_versions, false},
    {"trap-03-functions-of-other-libraries-are-left-alone", foreign_functions, true},
    {"trap-03-lookups-stay-relative-to-their-caller", relative_lookups, true},
    {"trap-03-without-a-driver-there-is-no-driver-function", no_driver_yet, true},
    {"trap-03-two-dlsym-interposers-get-along", beside_another_interposer, true},
    {"trap-03-a-path-with-spaces-works", held_and_right, false},
    {"trap-05-kernels-without-a-context-are-held-and-run", context_free_kernels, false},
    {"trap-06-a-deeply-bound-driver-does-not-escape", deep_binding, true},
};
CLIENT_MAIN(scenarios)
