/* SPDX-License-Identifier: Apache-2.0
 *
 * Code: modules and functions of a context, libraries and kernels of the process, and the linker.
 *
 * A library is loaded into a context (becomes a module with its own globals) when something of it is first needed
 * there.
 *
 * Lazy loading (the default) as seen on an H200: loading a module, and what first needs a library in a context, make
 * the host wait for the context's work in flight. The code of a single function is loaded when a module's function is
 * got or a library's kernel first launched; the host does not wait then, but the device does: what uses the function
 * starts only when the work that was in flight at that moment is done. A program that gets a function while a kernel
 * waits for it hangs here as it does there. With CUDA_MODULE_LOADING=EAGER nothing of this remains after loading.
 */
#include "tests/simcuda/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- images ---- */

static void image_unref(struct sim_image *image)
{
    if (--image->refs)
        return;
    ptx_module_destroy(image->ptx);
    free(image);
}

/* Without the lock: reading a large text takes a while. */
static CUresult image_load(const void *bytes, const struct sim_device_row *row, struct sim_image **out)
{
    struct ptx_options options = {.max_target = (unsigned)(row->major * 10 + row->minor)};
    char error[PTX_ERROR_TEXT_MAX] = "";
    struct sim_image *image;
    CUresult result;
    char *text;
    int code;

    result = sim_image_text(bytes, &text);
    if (result)
        return result;
    image = calloc(1, sizeof(*image));
    if (!image) {
        free(text);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    image->refs = 1;
    if (!strstr(text, ".version")) {
        free(text);
        free(image);
        return CUDA_ERROR_INVALID_IMAGE; /* not even an attempt at PTX */
    }
    code = ptx_module_create(text, strlen(text), &options, &image->ptx, error, sizeof(error));
    free(text);
    if (!code) {
        ptx_module_info(image->ptx, &image->info);
        for (size_t i = 0; i < image->info.globals; i++) {
            const struct ptx_global *global = ptx_module_global(image->ptx, i);

            if (global->is_const)
                image->const_bytes =
                    (image->const_bytes + global->align - 1) / global->align * global->align + global->size;
        }
        *out = image;
        return CUDA_SUCCESS;
    }
    free(image);
    switch (code) {
    case -ENOEXEC:
        sim_loud(bytes, "PTX refused: %s", error);
        return CUDA_ERROR_INVALID_PTX;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -EINVAL:
        sim_loud(bytes, "PTX refused: %s", error);
        return CUDA_ERROR_INVALID_PTX;
    default:
        sim_loud(bytes, "PTX that the simulated device cannot run: %s", error);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* ---- modules ---- */

void sim_module_free(struct sim_module *module)
{
    struct sim_module **link = &module->ctx->modules;

    while (*link && *link != module)
        link = &(*link)->next;
    if (*link)
        *link = module->next;
    for (size_t i = 0; i < module->image->info.globals && module->instance; i++) {
        uintptr_t address = ptx_instance_global_address(module->instance, i);
        struct sim_range *range = address ? sim_range_find(address) : NULL;

        if (range && range->base == address)
            sim_device_free(range);
    }
    ptx_instance_destroy(module->instance);
    for (unsigned i = 0; i < module->function_count; i++) {
        sim_op_unref(module->functions[i]->loading);
        sim_object_destroy(module->functions[i]);
    }
    free(module->functions);
    image_unref(module->image);
    sim_object_destroy(module);
}

static CUresult place_globals(struct sim_module *module)
{
    for (size_t i = 0; i < module->image->info.globals; i++) {
        const struct ptx_global *global = ptx_module_global(module->image->ptx, i);
        uintptr_t address;
        CUresult result = sim_device_alloc(module->ctx, global->size ? global->size : 1, &address);

        if (result)
            return result;
        memset((void *)address, 0, global->size);
        if (ptx_instance_place_global(module->instance, i, address))
            return CUDA_ERROR_INVALID_IMAGE;
    }
    return ptx_instance_initialise(module->instance) ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}

static int default_dynamic(const struct ptx_kernel *kernel)
{
    return kernel->static_shared <= 49152 ? (int)(49152 - kernel->static_shared) : 0;
}

/* Takes over one reference to the image, also on failure. */
static CUresult module_new(struct sim_ctx *ctx, struct sim_image *image, struct sim_library *library,
                           struct sim_module **out)
{
    struct sim_module *module = sim_object_create(SIM_MODULE, sizeof(*module));
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (!module) {
        image_unref(image);
        return result;
    }
    module->ctx = ctx;
    module->image = image;
    module->library = library;
    module->next = ctx->modules;
    ctx->modules = module;
    module->functions = calloc(image->info.kernels + 1, sizeof(*module->functions));
    if (!module->functions || ptx_instance_create(image->ptx, &module->instance))
        goto fail;
    for (size_t i = 0; i < image->info.kernels; i++) {
        struct sim_function *function = sim_object_create(SIM_FUNCTION, sizeof(*function));

        if (!function)
            goto fail;
        function->module = module;
        function->kernel = ptx_module_kernel(image->ptx, i);
        function->index = (unsigned)i;
        function->carveout = -1;
        function->max_dynamic_shared = default_dynamic(function->kernel);
        module->functions[module->function_count++] = function;
    }
    result = place_globals(module);
    if (result)
        goto fail;
    *out = module;
    return CUDA_SUCCESS;
fail:
    sim_module_free(module);
    return result;
}

CUresult sim_function_load(struct sim_function *function)
{
    struct sim_ctx *ctx = function->module->ctx;
    struct sim_op *op;

    if (function->loaded)
        return CUDA_SUCCESS;
    if (!sim.eager) {
        op = sim_op_create(sizeof(*op), ctx, NULL);
        if (!op)
            return CUDA_ERROR_OUT_OF_MEMORY;
        for (struct sim_stream *stream = ctx->streams; stream; stream = stream->next)
            sim_op_follow(op, stream->last);
        sim_op_arm(op);
        function->loading = op;
    }
    function->loaded = true;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleLoadData(CUmodule *module, const void *image)
{
    struct sim_module *made;
    struct sim_image *parsed;
    struct sim_ctx *ctx;
    CUresult result;

    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_context(&ctx);
    sim_unlock();
    if (!result)
        result = image_load(image, ctx->device->row, &parsed);
    if (result)
        return result;
    SIM_GUARD;
    sim_context_wait(ctx); /* seen on an H200: loading a module waits for the work in flight */
    result = module_new(ctx, parsed, NULL, &made);
    if (!result)
        *module = (CUmodule)made;
    return result;
}

/* Options set registers and optimisation, which mean nothing here; log buffers are answered with an empty log. */
static void answer_options(unsigned count, CUjit_option *options, void **values)
{
    unsigned char *info = NULL, *error = NULL;

    for (unsigned i = 0; i < count && options && values; i++) {
        switch (options[i]) {
        case 3: /* INFO_LOG_BUFFER */
            info = values[i];
            break;
        case 4: /* INFO_LOG_BUFFER_SIZE_BYTES */
        case 6: /* ERROR_LOG_BUFFER_SIZE_BYTES */
            values[i] = NULL;
            break;
        case 5: /* ERROR_LOG_BUFFER */
            error = values[i];
            break;
        default:
            break;
        }
    }
    if (info)
        *info = '\0';
    if (error)
        *error = '\0';
}

CUresult sim_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
                                void **optionValues)
{
    CUresult result;

    if (numOptions && (!options || !optionValues))
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_cuModuleLoadData(module, image);
    answer_options(numOptions, options, optionValues);
    return result;
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    return sim_cuModuleLoadData(module, fatCubin);
}

CUresult sim_cuModuleLoad(CUmodule *module, const char *fname)
{
    CUresult result;
    void *bytes;
    size_t size;

    if (!module || !fname)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_file_read(fname, &bytes, &size);
    if (result)
        return result;
    result = sim_cuModuleLoadData(module, bytes);
    free(bytes);
    return result;
}

static CUresult module_get(CUmodule handle, struct sim_module **module)
{
    struct sim_ctx *ctx;
    CUresult result = sim_context(&ctx);

    if (result)
        return result;
    if (!sim_object_is(handle, SIM_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    *module = (struct sim_module *)handle;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleUnload(CUmodule hmod)
{
    struct sim_module *module;
    CUresult result;

    SIM_GUARD;
    result = module_get(hmod, &module);
    if (!result)
        result = sim_capture_unsafe();
    if (result)
        return result;
    if (module->library)
        return CUDA_ERROR_INVALID_HANDLE;
    /* In practice the driver waits: code in use stays until it was used. */
    result = sim_context_wait(module->ctx);
    if (sim_object_is(hmod, SIM_MODULE))
        sim_module_free(module);
    return result;
}

CUresult sim_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    struct sim_module *module;
    CUresult result;
    long index;

    if (!hfunc || !name)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = module_get(hmod, &module);
    if (result)
        return result;
    index = ptx_module_find_kernel(module->image->ptx, name);
    if (index < 0)
        return CUDA_ERROR_NOT_FOUND;
    result = sim_function_load(module->functions[index]);
    if (!result)
        *hfunc = (CUfunction)module->functions[index];
    return result;
}

CUresult sim_cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
    struct sim_module *module;
    CUresult result;

    SIM_GUARD;
    result = module_get(mod, &module);
    if (result)
        return result;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = module->function_count;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    struct sim_module *module;
    CUresult result;

    SIM_GUARD;
    result = module_get(mod, &module);
    if (result)
        return result;
    if (!functions)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numFunctions && i < module->function_count; i++)
        functions[i] = (CUfunction)module->functions[i];
    return CUDA_SUCCESS;
}

static CUresult module_global(const struct sim_module *module, const char *name, CUdeviceptr *dptr, size_t *bytes)
{
    long index = ptx_module_find_global(module->image->ptx, name);
    const struct ptx_global *global;

    if (index < 0)
        return CUDA_ERROR_NOT_FOUND;
    global = ptx_module_global(module->image->ptx, (size_t)index); /* found whether it is .visible or not */
    if (dptr)
        *dptr = ptx_instance_global_address(module->instance, (size_t)index);
    if (bytes)
        *bytes = global->size;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    struct sim_module *module;
    CUresult result;

    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = module_get(hmod, &module);
    return result ? result : module_global(module, name, dptr, bytes);
}

/* ---- libraries ---- */

CUresult sim_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
                               unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions)
{
    struct sim_library *made;
    struct sim_image *image;
    CUresult result;

    (void)libraryOptions;
    (void)libraryOptionValues;
    (void)numLibraryOptions;
    if (!library || !code)
        return CUDA_ERROR_INVALID_VALUE;
    result = image_load(code, sim.devices[0].row, &image);
    answer_options(numJitOptions, jitOptions, jitOptionsValues);
    if (result)
        return result;
    SIM_GUARD;
    made = sim_object_create(SIM_LIBRARY, sizeof(*made));
    if (!made) {
        image_unref(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->image = image;
    made->kernels = calloc(image->info.kernels + 1, sizeof(*made->kernels));
    for (size_t i = 0; made->kernels && i < image->info.kernels; i++) {
        struct sim_kernel *kernel = sim_object_create(SIM_KERNEL, sizeof(*kernel));

        if (!kernel)
            break;
        kernel->library = made;
        kernel->index = (unsigned)i;
        kernel->carveout = -1;
        kernel->max_dynamic_shared = -1; /* not set */
        made->kernels[made->kernel_count++] = kernel;
    }
    *library = (CUlibrary)made;
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                                   void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                   void **libraryOptionValues, unsigned int numLibraryOptions)
{
    CUresult result;
    void *bytes;
    size_t size;

    if (!library || !fileName)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_file_read(fileName, &bytes, &size);
    if (result)
        return result;
    result = sim_cuLibraryLoadData(library, bytes, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                                   libraryOptionValues, numLibraryOptions);
    free(bytes);
    return result;
}

static CUresult library_get(CUlibrary handle, struct sim_library **library)
{
    if (!sim_object_is(handle, SIM_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    *library = (struct sim_library *)handle;
    return CUDA_SUCCESS;
}

static CUresult kernel_get(CUkernel handle, struct sim_kernel **kernel)
{
    if (!sim_object_is(handle, SIM_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *kernel = (struct sim_kernel *)handle;
    return CUDA_SUCCESS;
}

static CUresult library_module(struct sim_library *library, struct sim_ctx *ctx, struct sim_module **out)
{
    for (struct sim_module *module = ctx->modules; module; module = module->next) {
        if (module->library == library) {
            *out = module;
            return CUDA_SUCCESS;
        }
    }
    /* Seen on an H200: what first needs the code in a context waits for the work in flight there. */
    if (!sim.eager)
        sim_context_wait(ctx);
    library->image->refs++;
    return module_new(ctx, library->image, library, out);
}

CUresult sim_cuLibraryUnload(CUlibrary handle)
{
    struct sim_library *library;
    CUresult result;

    SIM_GUARD;
    result = library_get(handle, &library);
    if (!result)
        result = sim_capture_unsafe();
    if (result)
        return result;
    for (struct sim_ctx *ctx = atomic_load(&sim.contexts); ctx; ctx = ctx->next) {
        struct sim_module *module = ctx->modules;

        while (module && module->library != library)
            module = module->next;
        if (!module)
            continue;
        sim_context_wait(ctx);
        sim_module_free(module);
    }
    for (unsigned i = 0; i < library->kernel_count; i++)
        sim_object_destroy(library->kernels[i]);
    free(library->kernels);
    image_unref(library->image);
    sim_object_destroy(library);
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary handle, const char *name)
{
    struct sim_library *library;
    CUresult result;
    long index;

    if (!pKernel || !name)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = library_get(handle, &library);
    if (result)
        return result;
    index = ptx_module_find_kernel(library->image->ptx, name);
    if (index < 0)
        return CUDA_ERROR_NOT_FOUND;
    *pKernel = (CUkernel)library->kernels[index];
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    struct sim_library *library;
    CUresult result;

    SIM_GUARD;
    result = library_get(lib, &library);
    if (result)
        return result;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = library->kernel_count;
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    struct sim_library *library;
    CUresult result;

    SIM_GUARD;
    result = library_get(lib, &library);
    if (result)
        return result;
    if (!kernels)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numKernels && i < library->kernel_count; i++)
        kernels[i] = (CUkernel)library->kernels[i];
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetModule(CUmodule *pMod, CUlibrary handle)
{
    struct sim_library *library;
    struct sim_module *module;
    struct sim_ctx *ctx;
    CUresult result;

    if (!pMod)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = library_get(handle, &library);
    if (!result)
        result = sim_context(&ctx);
    if (!result)
        result = library_module(library, ctx, &module);
    if (!result)
        *pMod = (CUmodule)module;
    return result;
}

CUresult sim_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary handle, const char *name)
{
    struct sim_library *library;
    struct sim_module *module;
    struct sim_ctx *ctx;
    CUresult result;

    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = library_get(handle, &library);
    if (!result)
        result = sim_context(&ctx);
    if (!result)
        result = library_module(library, ctx, &module);
    return result ? result : module_global(module, name, dptr, bytes);
}

CUresult sim_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    (void)dptr;
    (void)bytes;
    (void)library;
    (void)name;
    return CUDA_ERROR_NOT_FOUND; /* no managed variables in what the interpreter accepts */
}

/* ---- kernels ---- */

static CUresult kernel_function(struct sim_kernel *kernel, struct sim_function **function)
{
    struct sim_module *module;
    struct sim_ctx *ctx;
    CUresult result = sim_context(&ctx);

    if (!result)
        result = library_module(kernel->library, ctx, &module);
    if (result)
        return result;
    *function = module->functions[kernel->index];
    if (kernel->max_dynamic_shared >= 0)
        (*function)->max_dynamic_shared = kernel->max_dynamic_shared;
    return CUDA_SUCCESS;
}

CUresult sim_function_get(CUfunction handle, struct sim_function **function)
{
    if (sim_object_is(handle, SIM_FUNCTION)) {
        *function = (struct sim_function *)handle;
        return CUDA_SUCCESS;
    }
    if (sim_object_is(handle, SIM_KERNEL))
        return kernel_function((struct sim_kernel *)handle, function);
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuKernelGetFunction(CUfunction *pFunc, CUkernel handle)
{
    struct sim_function *function;
    struct sim_kernel *kernel;
    CUresult result;

    if (!pFunc)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = kernel_get(handle, &kernel);
    if (!result)
        result = kernel_function(kernel, &function);
    if (!result)
        *pFunc = (CUfunction)function;
    return result;
}

CUresult sim_cuKernelGetLibrary(CUlibrary *pLib, CUkernel handle)
{
    struct sim_kernel *kernel;
    CUresult result;

    SIM_GUARD;
    result = kernel_get(handle, &kernel);
    if (result)
        return result;
    if (!pLib)
        return CUDA_ERROR_INVALID_VALUE;
    *pLib = (CUlibrary)kernel->library;
    return CUDA_SUCCESS;
}

static const struct ptx_kernel *kernel_code(const struct sim_kernel *kernel)
{
    return ptx_module_kernel(kernel->library->image->ptx, kernel->index);
}

CUresult sim_cuKernelGetName(const char **name, CUkernel handle)
{
    struct sim_kernel *kernel;
    CUresult result;

    SIM_GUARD;
    result = kernel_get(handle, &kernel);
    if (result)
        return result;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = kernel_code(kernel)->name;
    return CUDA_SUCCESS;
}

static CUresult param_info(const struct ptx_kernel *kernel, size_t index, size_t *offset, size_t *size)
{
    if (!offset || index >= kernel->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->params[index].offset;
    if (size)
        *size = kernel->params[index].size;
    return CUDA_SUCCESS;
}

CUresult sim_cuKernelGetParamInfo(CUkernel handle, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
    struct sim_kernel *kernel;
    CUresult result;

    SIM_GUARD;
    result = kernel_get(handle, &kernel);
    return result ? result : param_info(kernel_code(kernel), paramIndex, paramOffset, paramSize);
}

static CUresult code_attribute(const struct ptx_kernel *kernel, const struct sim_image *image,
                               const struct sim_device_row *row, CUfunction_attribute attribute, int *value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)kernel->max_threads;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)kernel->static_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = (int)image->const_bytes; /* those of the module, used by this function or not */
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)kernel->local_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = (int)kernel->registers;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = (int)image->info.target;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = row->major * 10 + row->minor; /* "compiled" for the device it runs on */
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = 0;
        return CUDA_SUCCESS;
    case 11: /* REQUIRED_CLUSTER_WIDTH, _HEIGHT, _DEPTH */
    case 12:
    case 13:
        *value = (int)kernel->reqnctapercluster[attribute - 11];
        return CUDA_SUCCESS;
    case 15: /* CLUSTER_SCHEDULING_POLICY_PREFERENCE */
        *value = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_function_info(const struct sim_function *function, CUfunction_attribute attribute, int *value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->max_dynamic_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = function->carveout;
        return CUDA_SUCCESS;
    case 14: /* NON_PORTABLE_CLUSTER_SIZE_ALLOWED */
        *value = function->nonportable_cluster;
        return CUDA_SUCCESS;
    default:
        return code_attribute(function->kernel, function->module->image, function->module->ctx->device->row, attribute,
                              value);
    }
}

static CUresult check_settable(const struct ptx_kernel *kernel, const struct sim_device_row *row,
                               CUfunction_attribute attribute, int value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return value < 0 || value + (int)kernel->static_shared > row->shared_optin ? CUDA_ERROR_INVALID_VALUE
                                                                                   : CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return value < -1 || value > 100 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case 14:
    case 15:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel handle, CUdevice dev)
{
    struct sim_kernel *kernel;
    struct sim_device *device;
    CUresult result;

    SIM_GUARD;
    result = kernel_get(handle, &kernel);
    if (!result)
        result = sim_device_get(dev, &device);
    if (result)
        return result;
    if (!pi)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attrib) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *pi = kernel->max_dynamic_shared >= 0 ? kernel->max_dynamic_shared : default_dynamic(kernel_code(kernel));
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *pi = kernel->carveout;
        return CUDA_SUCCESS;
    case 14:
        *pi = 0;
        return CUDA_SUCCESS;
    default:
        return code_attribute(kernel_code(kernel), kernel->library->image, device->row, attrib, pi);
    }
}

CUresult sim_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel handle, CUdevice dev)
{
    struct sim_kernel *kernel;
    struct sim_device *device;
    CUresult result;

    SIM_GUARD;
    result = kernel_get(handle, &kernel);
    if (!result)
        result = sim_device_get(dev, &device);
    if (!result)
        result = check_settable(kernel_code(kernel), device->row, attrib, val);
    if (result)
        return result;
    if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        kernel->max_dynamic_shared = val;
    else if (attrib == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        kernel->carveout = val;
    return CUDA_SUCCESS;
}

CUresult sim_cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice dev)
{
    struct sim_kernel *kernel;
    struct sim_device *device;
    CUresult result;

    SIM_GUARD;
    result = kernel_get(handle, &kernel);
    if (!result)
        result = sim_device_get(dev, &device);
    return result ? result : config > 3 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- functions ---- */

/* The calls on functions do not take a CUkernel in place of a CUfunction, unlike the launch. */
static CUresult only_function(CUfunction handle, struct sim_function **function)
{
    struct sim_ctx *ctx;
    CUresult result = sim_context(&ctx);

    if (result)
        return result;
    if (!sim_object_is(handle, SIM_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    *function = (struct sim_function *)handle;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    struct sim_function *function;
    CUresult result;

    SIM_GUARD;
    result = only_function(hfunc, &function);
    if (result)
        return result;
    return pi ? sim_function_info(function, attrib, pi) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    struct sim_function *function;
    CUresult result;

    SIM_GUARD;
    result = only_function(hfunc, &function);
    if (!result)
        result = check_settable(function->kernel, function->module->ctx->device->row, attrib, value);
    if (result)
        return result;
    if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        function->max_dynamic_shared = value;
    else if (attrib == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        function->carveout = value;
    else if (attrib == 14)
        function->nonportable_cluster = value != 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetName(const char **name, CUfunction hfunc)
{
    struct sim_function *function;
    CUresult result;

    SIM_GUARD;
    result = only_function(hfunc, &function);
    if (result)
        return result;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = function->kernel->name;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    struct sim_function *function;
    CUresult result;

    SIM_GUARD;
    result = only_function(hfunc, &function);
    if (result)
        return result;
    if (!hmod)
        return CUDA_ERROR_INVALID_VALUE;
    *hmod = (CUmodule)function->module;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
    struct sim_function *function;
    CUresult result;

    SIM_GUARD;
    result = only_function(func, &function);
    return result ? result : param_info(function->kernel, paramIndex, paramOffset, paramSize);
}

CUresult sim_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction hfunc)
{
    struct sim_function *function;
    CUresult result;

    SIM_GUARD;
    result = only_function(hfunc, &function);
    if (result)
        return result;
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = function->loaded;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncLoad(CUfunction hfunc)
{
    struct sim_function *function;
    CUresult result;

    SIM_GUARD;
    result = only_function(hfunc, &function);
    return result ? result : sim_function_load(function);
}

CUresult sim_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    struct sim_function *function;
    CUresult result;

    SIM_GUARD;
    result = only_function(hfunc, &function);
    return result ? result : config > 3 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    struct sim_function *function;
    CUresult result;

    SIM_GUARD;
    result = only_function(hfunc, &function);
    return result ? result : config > 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- the linker: passes one PTX text through ---- */

struct sim_link {
    char *text;
};

CUresult sim_cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
    struct sim_link *link;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (!stateOut || (numOptions && (!options || !optionValues)))
        return CUDA_ERROR_INVALID_VALUE;
    answer_options(numOptions, options, optionValues);
    link = sim_object_create(SIM_LINK, sizeof(*link));
    if (!link)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *stateOut = (CUlinkState)link;
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                              unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    enum { CUBIN = 0, PTX = 1, FATBIN = 2 };
    struct sim_link *link = (struct sim_link *)state;
    static const char key;

    (void)name;
    (void)numOptions;
    (void)options;
    (void)optionValues;
    SIM_GUARD;
    if (!sim_object_is(state, SIM_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data || !size)
        return CUDA_ERROR_INVALID_VALUE;
    if (type == CUBIN)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if ((type != PTX && type != FATBIN) || link->text) {
        sim_loud(&key, "cuLinkAddData: only one PTX or fatbin per link is implemented");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (type == FATBIN)
        return sim_image_text(data, &link->text);
    link->text = strndup(data, size);
    return link->text ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
                              CUjit_option *options, void **optionValues)
{
    CUresult result;
    void *bytes;
    size_t size;

    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_file_read(path, &bytes, &size);
    if (result)
        return result;
    result = sim_cuLinkAddData_v2(state, type, bytes, size, path, numOptions, options, optionValues);
    free(bytes);
    return result;
}

CUresult sim_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    struct sim_link *link = (struct sim_link *)state;

    SIM_GUARD;
    if (!sim_object_is(state, SIM_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!cubinOut || !link->text)
        return CUDA_ERROR_INVALID_VALUE;
    *cubinOut = link->text;
    if (sizeOut)
        *sizeOut = strlen(link->text) + 1;
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkDestroy(CUlinkState state)
{
    struct sim_link *link = (struct sim_link *)state;

    SIM_GUARD;
    if (!sim_object_is(state, SIM_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    free(link->text);
    sim_object_destroy(link);
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
    return sim_cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

CUresult sim_cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                           unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    return sim_cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult sim_cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
                           CUjit_option *options, void **optionValues)
{
    return sim_cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}
