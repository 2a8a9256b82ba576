/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/twin.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* In the form of a key: what is refused without the option is not with it. Above the bits of coalesce.h. */
enum { KEY_UNPROVEN = 1 << 8 };

static const uint32_t class_members[TWIN_CLASSES] = {[TWIN_ONE] = 1, [TWIN_MANY] = SCHED_PACK_MAX};

/* ---- the code of a twin ---- */

struct place {
    const struct cu_driver *driver;
    const struct code *code;
    bool asked;
};

/* Where the program's copy of a variable is. The context of the twin is current. */
static uint64_t address_of(void *context, const char *symbol)
{
    struct place *place = context;
    CUdeviceptr address = 0;
    size_t bytes;
    CUresult result = CUDA_ERROR_NOT_FOUND;

    if (place->code->library && place->driver->cuLibraryGetGlobal)
        result = place->driver->cuLibraryGetGlobal(&address, &bytes, (CUlibrary)place->code->handle, symbol);
    else if (!place->code->library && place->driver->cuModuleGetGlobal_v2)
        result = place->driver->cuModuleGetGlobal_v2(&address, &bytes, (CUmodule)place->code->handle, symbol);
    if (result != CUDA_SUCCESS)
        return 0;
    place->asked = true;
    return (uint64_t)address;
}

/* From the cache on disk if it is there. What holds an address of this process, or lacks one, is not kept. */
static int rewrite_or_remember(struct engine *engine, struct twin *twin, const struct coalesce_source *source,
                               struct coalesce_output *output, const struct place *place)
{
    unsigned sm = twin->context->device->capability;
    struct twin_key key = {.code = image_hash(source->bytes, source->size, 0),
                           .kernel = source->kernel,
                           .sm = sm,
                           .members = twin->members,
                           .form = twin->form | (source->unproven ? KEY_UNPROVEN : 0)};
    int error = twin_cache_get(&engine->twin_cache, &key, output, &twin->refusal);

    if (error != -ENOENT)
        return error;
    error = coalesce_rewrite(source, sm, twin->members, twin->form, output, &twin->refusal);
    if (error == 0 && !place->asked)
        twin_cache_put(&engine->twin_cache, &key, output, COALESCE_NONE);
    else if (error == -ENOTSUP && twin->refusal != COALESCE_GLOBAL && twin->refusal != COALESCE_ROOM)
        twin_cache_put(&engine->twin_cache, &key, NULL, twin->refusal);
    return error;
}

/* The rewritten image, or a refusal. Needs code->reading. */
static int rewrite(struct engine *engine, struct twin *twin, struct coalesce_output *output)
{
    struct code *code = twin->function->code;
    unsigned sm = twin->context->device->capability;
    struct place place = {.driver = engine->driver, .code = code};
    struct image_code found;
    struct coalesce_source source = {
        .kernel = twin->function->name, .address = address_of, .context = &place, .unproven = engine->options.unproven};
    int error;

    if (!code->known) {
        twin->refusal = code->refusal;
        return -ENOTSUP;
    }
    error = image_find(&code->image, sm, source.kernel, &found, &twin->refusal);
    if (error < 0)
        return error;
    source.code = found.code;
    source.bytes = found.bytes;
    source.size = found.size;
    error = rewrite_or_remember(engine, twin, &source, output, &place);
    if (error == 0 && place.asked)
        twin->bound = twin->context->handle;
    image_code_finish(&found);
    return error;
}

/* ---- loading ---- */

/* Attributes that a launch depends on and that the program may have set. */
static const CUfunction_attribute inherited[] = {
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
};

static CUresult inherit(const struct cu_driver *driver, const struct function *function, CUkernel kernel,
                        CUdevice device)
{
    for (size_t i = 0; i < sizeof(inherited) / sizeof(inherited[0]); i++) {
        int value, now;
        CUresult result;

        if (driver->cuFuncGetAttribute(&value, inherited[i], function->query) != CUDA_SUCCESS ||
            (driver->cuKernelGetAttribute(&now, inherited[i], kernel, device) == CUDA_SUCCESS && now == value))
            continue;
        result = driver->cuKernelSetAttribute(inherited[i], value, kernel, device);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static bool driver_has_libraries(const struct cu_driver *driver)
{
    return driver->cuLibraryLoadData && driver->cuLibraryUnload && driver->cuLibraryGetKernel &&
           driver->cuKernelGetFunction && driver->cuKernelGetAttribute && driver->cuKernelSetAttribute &&
           driver->cuFuncGetAttribute;
}

/* Loads the rewritten image; the code is on the device when this returns, so that the first pack need not wait. */
static int load(struct engine *engine, struct twin *twin, const struct coalesce_output *output)
{
    const struct cu_driver *driver = engine->driver;
    CUdevice device = twin->context->device->ordinal;
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    int threads = 0;

    twin->refusal = COALESCE_LOAD;
    if (!driver_has_libraries(driver) ||
        driver->cuLibraryLoadData(&twin->library, output->image, NULL, NULL, 0, NULL, NULL, 0) != CUDA_SUCCESS)
        return -ENOTSUP;
    if (driver->cuLibraryGetKernel(&kernel, twin->library, twin->function->name) != CUDA_SUCCESS ||
        driver->cuKernelGetFunction(&function, kernel) != CUDA_SUCCESS ||
        inherit(driver, twin->function, kernel, device) != CUDA_SUCCESS)
        goto unload;
    if (driver->cuFuncLoad)
        driver->cuFuncLoad(function);
    if (driver->cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function) != CUDA_SUCCESS ||
        threads < (int)twin->function->threads_max) {
        twin->refusal = COALESCE_RESOURCES;
        goto unload;
    }
    twin->handle = (CUfunction)kernel;
    twin->layout = output->layout;
    twin->constants = output->constants;
    twin->refusal = COALESCE_NONE;
    return 0;

unload:
    driver->cuLibraryUnload(twin->library);
    twin->library = NULL;
    return -ENOTSUP;
}

static void settle(struct engine *engine, struct twin *twin, bool ready)
{
    struct code *code = twin->function->code;

    lock_take(&engine->twins.lock);
    twin->next = code->twins;
    code->twins = twin;
    lock_drop(&engine->twins.lock);
    atomic_fetch_add_explicit(ready ? &engine->twins.made : &engine->twins.refused, 1, memory_order_relaxed);
    /* Release: pairs with the acquire in usable(). */
    atomic_store_explicit(&twin->state, ready ? TWIN_READY : TWIN_REFUSED, memory_order_release);
}

static void trace_twin(struct engine *engine, const struct twin *twin, uint64_t begin_ns)
{
    struct trace_event event = {
        .kind = TRACE_REWRITE,
        .ts_ns = begin_ns,
        .dur_ns = clock_ns() - begin_ns,
        .name = twin->function->name,
        .lane = UINT32_MAX,
        .device = (uint32_t)twin->context->device->ordinal,
        .value = {twin->refusal, twin->form, twin->refusal == COALESCE_NONE ? twin->layout.capacity : 0},
    };

    trace_put(engine->options.trace, &event);
}

/* The context of the twin is current. */
static void make(struct engine *engine, struct twin *twin)
{
    struct code *code = twin->function->code;
    struct coalesce_output output = {0};
    uint64_t begin_ns = clock_ns();
    int error = -ENOTSUP;

    twin->refusal = COALESCE_NO_IMAGE;
    /* Held while the driver loads: an unload of the original waits, and then finds the twin in the list. */
    lock_take(&code->reading);
    if (!atomic_load_explicit(&code->gone, memory_order_acquire)) {
        error = rewrite(engine, twin, &output);
        if (error == -ENOMEM)
            twin->refusal = COALESCE_ROOM;
    }
    if (error == 0) {
        error = load(engine, twin, &output);
        free(output.image);
    }
    settle(engine, twin, error == 0);
    lock_drop(&code->reading);
    trace_twin(engine, twin, begin_ns);
    if (error < 0)
        log_debug("%.200s: not coalesced: %s", twin->function->name, coalesce_refusal_text(twin->refusal));
}

/* ---- the thread ---- */

static struct twin *next_twin(struct twin_maker *maker)
{
    struct twin *twin;

    lock_take(&maker->lock);
    twin = maker->first;
    if (twin)
        maker->first = twin->next;
    if (!maker->first)
        maker->last = NULL;
    lock_drop(&maker->lock);
    return twin;
}

static void maker_main(void *argument)
{
    struct engine *engine = argument;
    struct twin_maker *maker = &engine->twins;

    engine_relax(engine->driver);
    for (;;) {
        /*
         * Acquire: pairs with the releases in ask() and engine_stop(). Read before the queue and before `stopping`, so
         * that neither a twin nor the end is slept through.
         */
        uint32_t seen = atomic_load_explicit(&maker->bell, memory_order_acquire);
        struct twin *twin;

        if (atomic_load_explicit(&engine->stopping, memory_order_acquire))
            break;
        twin = next_twin(maker);
        if (!twin) {
            wait_word(&maker->bell, seen, UINT64_MAX);
        } else if (engine->driver->cuCtxSetCurrent(twin->context->handle) == CUDA_SUCCESS) {
            make(engine, twin);
        } else {
            twin->refusal = COALESCE_LOAD;
            settle(engine, twin, false);
        }
    }
}

static void ask(struct engine *engine, struct twin *twin)
{
    struct twin_maker *maker = &engine->twins;

    lock_take(&maker->lock);
    if (atomic_load_explicit(&maker->thread.state, memory_order_relaxed) == THREAD_NEW)
        thread_start(&maker->thread, "coissue-twins", THREAD_STACK_PROGRAM, maker_main, engine);
    if (maker->last)
        maker->last->next = twin;
    else
        maker->first = twin;
    maker->last = twin;
    lock_drop(&maker->lock);
    atomic_fetch_add_explicit(&maker->bell, 1, memory_order_release);
    wake_word(&maker->bell, 1);
}

/* ---- what others ask ---- */

bool function_may_pack(const struct function *function, unsigned form)
{
    const struct twin *twin = function->twins[form][TWIN_MANY];

    return function->code && function->parameter_bytes > 0 &&
           !atomic_load_explicit(&function->code->gone, memory_order_relaxed) &&
           (!twin || atomic_load_explicit(&((struct twin *)twin)->state, memory_order_relaxed) != TWIN_REFUSED);
}

static bool usable(struct twin *twin, const struct context *context)
{
    const struct code *code = twin->function->code;

    return atomic_load_explicit(&twin->state, memory_order_acquire) == TWIN_READY &&
           (!twin->bound || twin->bound == context->handle) &&
           !(twin->constants && atomic_load_explicit(&code->given, memory_order_relaxed)) &&
           !atomic_load_explicit(&code->gone, memory_order_relaxed);
}

void twin_failed(const struct twin *twin, CUresult result)
{
    struct twin *mine = (struct twin *)twin;

    log_warn("%.200s: the driver refused a coalesced launch: %s (%d); it is issued launch by launch from now on",
             twin->function->name, cu_result_name(result), (int)result);
    mine->refusal = COALESCE_LOAD;
    atomic_store_explicit(&mine->state, TWIN_REFUSED, memory_order_release);
}

static struct twin *begin(struct engine *engine, const struct function *function, struct context *context,
                          unsigned form, int class)
{
    struct twin *twin = engine_arena(engine, sizeof(*twin));

    if (!twin)
        return NULL;
    twin->function = function;
    twin->context = context;
    twin->form = form;
    twin->members = class_members[class];
    atomic_init(&twin->state, TWIN_ASKED);
    return twin;
}

const struct twin *twin_get(struct engine *engine, const struct function *function, struct context *context,
                            unsigned form)
{
    struct twin **slot = &((struct function *)function)->twins[form][TWIN_MANY];

    if (!*slot && function_may_pack(function, form)) {
        *slot = begin(engine, function, context, form, TWIN_MANY);
        if (*slot)
            ask(engine, *slot);
    }
    return *slot && usable(*slot, context) ? *slot : NULL;
}

const struct twin *twin_of_one(struct engine *engine, const struct function *function, struct context *context,
                               unsigned form)
{
    struct twin **slot = &((struct function *)function)->twins[form][TWIN_ONE], *twin;

    if (!function->code || function->parameter_bytes == 0)
        return NULL;
    lock_take(&engine->twins_of_one);
    if (!*slot) {
        twin = begin(engine, function, context, form, TWIN_ONE);
        if (twin)
            make(engine, twin);
        *slot = twin;
    }
    twin = *slot;
    lock_drop(&engine->twins_of_one);
    return twin && usable(twin, context) ? twin : NULL;
}

void twins_end(struct engine *engine, struct code *code)
{
    const struct cu_driver *driver = engine->driver;

    lock_take(&engine->twins.lock);
    for (struct twin *twin = code->twins; twin; twin = twin->next) {
        atomic_store_explicit(&twin->state, TWIN_REFUSED, memory_order_release);
        if (twin->library)
            driver->cuLibraryUnload(twin->library);
        twin->library = NULL;
    }
    code->twins = NULL;
    lock_drop(&engine->twins.lock);
}

/* ---- the report of a verification ---- */

/* Why a function's launches were not replaced: the first form that was refused says it. */
static const char *why_not(const struct function *function, const char **sentence)
{
    enum coalesce_refusal refusal = function->code ? COALESCE_NONE : COALESCE_NO_IMAGE;

    if (function->parameter_bytes == 0)
        refusal = COALESCE_PARAMETERS;
    for (int form = 0; form < TWIN_FORMS && refusal == COALESCE_NONE; form++)
        for (int class = 0; class < TWIN_CLASSES && refusal == COALESCE_NONE; class ++)
            if (function->twins[form][class])
                refusal = function->twins[form][class]->refusal;
    *sentence = coalesce_refusal_text(refusal);
    return coalesce_refusal_name(refusal);
}

static int report_function(const struct function *function, bool first, int fd)
{
    char line[FUNCTION_NAME_MAX * 6 + 512];
    struct text text;
    const char *sentence, *name = why_not(function, &sentence);

    text_init(&text, line, sizeof(line));
    text_string(&text, first ? "\n {\"kernel\":" : ",\n {\"kernel\":");
    text_json(&text, function->name, FUNCTION_NAME_MAX);
    text_string(&text, ",\"launches\":");
    text_unsigned(&text, atomic_load_explicit(&((struct function *)function)->launches, memory_order_relaxed));
    text_string(&text, ",\"replaced\":");
    text_unsigned(&text, atomic_load_explicit(&((struct function *)function)->replaced, memory_order_relaxed));
    text_string(&text, ",\"refusal\":");
    text_json(&text, name, 64);
    text_string(&text, ",\"because\":");
    text_json(&text, sentence, 200);
    text_string(&text, "}");
    return fd_write_all(fd, line, text_end(&text));
}

int twins_report(struct engine *engine, int fd)
{
    int error = fd_write_all(fd, "{\"functions\":[", 14);
    bool first = true;

    for (uint32_t i = 0; i <= engine->functions.mask && error == 0; i++) {
        const struct function *function =
            (const struct function *)atomic_load_explicit(&engine->functions.slots[i].value, memory_order_acquire);

        if (!function || atomic_load_explicit(&((struct function *)function)->launches, memory_order_relaxed) == 0)
            continue;
        error = report_function(function, first, fd);
        first = false;
    }
    return error < 0 ? error : fd_write_all(fd, "\n]}\n", 4);
}
