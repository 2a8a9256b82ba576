/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that goes away or changes: held launches of it are issued first, and what is known of functions is asked for
 * anew. Knowledge is dropped before the driver's call, so that no launch uses it meanwhile, and once more after,
 * because a launch of another thread may have learned a handle that the driver then gave to another function.
 */
#include "shim/shim.h"

#include "engine/function.h"

SHIM_EXPORT CUresult cuModuleUnload(CUmodule hmod)
{
    typeof(shim_driver.cuModuleUnload) real = shim_real(cuModuleUnload);
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hmod);
    order_context(NULL, CU_ID_cuModuleUnload);
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
