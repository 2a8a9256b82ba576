/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that comes: which image each kernel is from is noted, so that it can be rewritten when launches of it could be
 * coalesced. The driver is asked first, and only what it took is noted.
 *
 * Code that goes away or changes: held launches of it are issued first, and what is known of functions is asked for
 * anew. Knowledge is dropped before the driver's call, so that no launch uses it meanwhile, and once more after,
 * because a launch of another thread may have learned a handle that the driver then gave to another function.
 */
#include "shim/remote.h"

#include "engine/code.h"
#include "engine/function.h"
#include "engine/twin.h"

/*
 * A call that loads: flush as its class says, call, and note what was loaded. The macro writes the wrapper; `note` may
 * use the parameters.
 */
#define LOADS(symbol, note, params)                                                                                    \
    WRAP_AROUND(symbol, IN_CONTEXT(symbol), order_result, if (shim_wants_code()) note, params)

/* A call that answers with a handle that comes from another: nothing is flushed. */
#define DERIVES(symbol, note, params)                                                                                  \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
        CUresult result;                                                                                               \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        result = real CU_ARGS(params);                                                                                 \
        if (result == CUDA_SUCCESS && shim_active() && shim_wants_code())                                              \
            note;                                                                                                      \
        return result;                                                                                                 \
    }

static bool shim_wants_code(void)
{
    return shim_engine->options.coalesce || shim_engine->options.verify || shim_config.broker != BROKER_OFF;
}

/*
 * The driver loads a function's code when the program gets it from its module, or loads it; a program may rely on that,
 * because loading can wait for what runs, and what runs for this function. So it is loaded in the broker at that time
 * too.
 */
static void load_remotely(CUfunction function)
{
    struct remote *remote = remote_current();
    const struct function *known = remote ? function_get(shim_engine, function) : NULL;

    if (known)
        remote_function(remote, known);
}

static void derive_function(CUfunction function, CUmodule module)
{
    code_derived(shim_engine, (uint64_t)function, (uint64_t)module);
    load_remotely(function);
}

static void derive_all(void *const *handles, unsigned int count, const void *parent)
{
    for (unsigned int i = 0; i < count; i++)
        code_derived(shim_engine, (uint64_t)handles[i], (uint64_t)parent);
}

LOADS(cuModuleLoad, code_loaded_file(shim_engine, (uint64_t)*module, false, fname),
      P2(CUmodule *, module, const char *, fname))
LOADS(cuModuleLoadData, code_loaded(shim_engine, (uint64_t)*module, false, image),
      P2(CUmodule *, module, const void *, image))
LOADS(cuModuleLoadDataEx, code_loaded(shim_engine, (uint64_t)*module, false, image),
      P5(CUmodule *, module, const void *, image, unsigned int, numOptions, CUjit_option *, options, void **,
         optionValues))
LOADS(cuModuleLoadFatBinary, code_loaded(shim_engine, (uint64_t)*module, false, fatCubin),
      P2(CUmodule *, module, const void *, fatCubin))
LOADS(cuLibraryLoadData, code_loaded(shim_engine, (uint64_t)*library, true, code),
      P8(CUlibrary *, library, const void *, code, CUjit_option *, jitOptions, void **, jitOptionsValues, unsigned int,
         numJitOptions, CUlibraryOption *, libraryOptions, void **, libraryOptionValues, unsigned int,
         numLibraryOptions))
LOADS(cuLibraryLoadFromFile, code_loaded_file(shim_engine, (uint64_t)*library, true, fileName),
      P8(CUlibrary *, library, const char *, fileName, CUjit_option *, jitOptions, void **, jitOptionsValues,
         unsigned int, numJitOptions, CUlibraryOption *, libraryOptions, void **, libraryOptionValues, unsigned int,
         numLibraryOptions))

DERIVES(cuModuleGetFunction, derive_function(*hfunc, hmod), P3(CUfunction *, hfunc, CUmodule, hmod, const char *, name))
DERIVES(cuModuleEnumerateFunctions, derive_all((void *const *)functions, numFunctions, mod),
        P3(CUfunction *, functions, unsigned int, numFunctions, CUmodule, mod))
DERIVES(cuLibraryGetKernel, code_derived(shim_engine, (uint64_t)*pKernel, (uint64_t)library),
        P3(CUkernel *, pKernel, CUlibrary, library, const char *, name))
DERIVES(cuLibraryEnumerateKernels, derive_all((void *const *)kernels, numKernels, lib),
        P3(CUkernel *, kernels, unsigned int, numKernels, CUlibrary, lib))
DERIVES(cuLibraryGetModule, code_derived(shim_engine, (uint64_t)*pMod, (uint64_t)library),
        P2(CUmodule *, pMod, CUlibrary, library))
DERIVES(cuKernelGetFunction, code_derived(shim_engine, (uint64_t)*pFunc, (uint64_t)kernel),
        P2(CUfunction *, pFunc, CUkernel, kernel))

/* Who knows where a variable is may write to it; constants of a copy would then be old. */
LOADS(cuModuleGetGlobal, code_given(shim_engine, (uint64_t)hmod),
      P4(CUdeviceptr_v1 *, dptr, unsigned int *, bytes, CUmodule, hmod, const char *, name))
LOADS(cuModuleGetGlobal_v2, code_given(shim_engine, (uint64_t)hmod),
      P4(CUdeviceptr *, dptr, size_t *, bytes, CUmodule, hmod, const char *, name))
LOADS(cuLibraryGetGlobal, code_given(shim_engine, (uint64_t)library),
      P4(CUdeviceptr *, dptr, size_t *, bytes, CUlibrary, library, const char *, name))
LOADS(cuLibraryGetManaged, code_given(shim_engine, (uint64_t)library),
      P4(CUdeviceptr *, dptr, size_t *, bytes, CUlibrary, library, const char *, name))

/* An image goes: nobody reads it any more, and the twins that were made from it go too. */
static void before_unload(uint64_t handle)
{
    struct code *code = code_gone(shim_engine, handle);

    if (code)
        twins_end(shim_engine, code);
}

SHIM_EXPORT CUresult cuModuleUnload(CUmodule hmod)
{
    typeof(shim_driver.cuModuleUnload) real = shim_real(cuModuleUnload);
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hmod);
    order_context(NULL, CU_ID_cuModuleUnload);
    before_unload((uint64_t)hmod);
    function_forget_all(shim_engine);
    result = real(hmod);
    function_forget_all(shim_engine);
    return order_result(result);
}

/* A library's kernels may be in use in any context. */
SHIM_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    typeof(shim_driver.cuLibraryUnload) real = shim_real(cuLibraryUnload);
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(library);
    order_all(CU_ID_cuLibraryUnload);
    before_unload((uint64_t)library);
    function_forget_all(shim_engine);
    result = real(library);
    function_forget_all(shim_engine);
    return order_result(result);
}

/*
 * Attributes belong to the function, not to the launch: what is held runs with those of its time. Libraries set the
 * same value before every launch, which changes nothing and must not flush anything.
 */
SHIM_EXPORT CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    typeof(shim_driver.cuFuncSetAttribute) real = shim_real(cuFuncSetAttribute);
    CUresult result;
    int now;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active() || (shim_driver.cuFuncGetAttribute &&
                           shim_driver.cuFuncGetAttribute(&now, attrib, hfunc) == CUDA_SUCCESS && now == value))
        return real(hfunc, attrib, value);
    order_context(NULL, CU_ID_cuFuncSetAttribute);
    result = real(hfunc, attrib, value);
    /* Of every handle: the function may be known under a CUkernel too. */
    function_forget_all(shim_engine);
    return order_result(result);
}

SHIM_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    typeof(shim_driver.cuKernelSetAttribute) real = shim_real(cuKernelSetAttribute);
    CUresult result;
    int now;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active() || (shim_driver.cuKernelGetAttribute &&
                           shim_driver.cuKernelGetAttribute(&now, attrib, kernel, dev) == CUDA_SUCCESS && now == val))
        return real(attrib, val, kernel, dev);
    order_all(CU_ID_cuKernelSetAttribute);
    result = real(attrib, val, kernel, dev);
    /* Its CUfunctions, one per context, have other handles than the kernel's: all are asked for again. */
    function_forget_all(shim_engine);
    return order_result(result);
}

LOADS(cuFuncLoad, load_remotely(function), P1(CUfunction, function))
