/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/code.h"

#include "base/log.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the data of a program or shared object: it stays as long as that is loaded. */
static bool stays(const void *bytes)
{
    Dl_info info;

    return dladdr(bytes, &info) != 0;
}

static bool room_for(struct engine *engine, size_t bytes)
{
    size_t before = atomic_fetch_add_explicit(&engine->code_copied, bytes, memory_order_relaxed);

    if (bytes <= CODE_COPIES_MAX && before <= CODE_COPIES_MAX - bytes)
        return true;
    atomic_fetch_sub_explicit(&engine->code_copied, bytes, memory_order_relaxed);
    return false;
}

static void keep(struct engine *engine, struct code *code, const void *bytes, size_t limit, bool copy)
{
    struct image image;
    enum coalesce_refusal refusal = COALESCE_IMAGE_KIND;

    if (image_measure(bytes, limit, &image, &refusal) < 0) {
        code->refusal = refusal;
        return;
    }
    code->image = image;
    if (copy && (!room_for(engine, image_copy_bytes(&image)) || image_copy(&image, &code->image) < 0)) {
        code->refusal = COALESCE_ROOM;
        return;
    }
    code->owned = copy;
    code->known = true;
}

static void publish(struct engine *engine, uint64_t key, struct code *code)
{
    lock_take(&engine->code_lock);
    if (handle_map_set(&engine->codes, key, (uint64_t)code) < 0 && !engine->codes_full) {
        engine->codes_full = true;
        log_info("more kernels than %u: further ones are not coalesced", engine->codes.mask / 4 * 3);
    }
    lock_drop(&engine->code_lock);
}

static struct code *begin(struct engine *engine, uint64_t handle, bool library)
{
    struct code *code = engine_arena(engine, sizeof(*code));

    if (!code)
        return NULL;
    code->handle = handle;
    code->library = library;
    code->refusal = COALESCE_NO_IMAGE;
    return code;
}

void code_loaded(struct engine *engine, uint64_t handle, bool library, const void *bytes)
{
    struct code *code = begin(engine, handle, library);

    if (!code)
        return;
    keep(engine, code, bytes, SIZE_MAX, !stays(bytes));
    publish(engine, handle, code);
}

void code_loaded_file(struct engine *engine, uint64_t handle, bool library, const char *path)
{
    struct code *code = begin(engine, handle, library);
    int fd = code ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat about;
    void *bytes;

    if (!code)
        return;
    if (fd >= 0 && fstat(fd, &about) == 0 && about.st_size > 0) {
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            keep(engine, code, bytes, (size_t)about.st_size, true);
            munmap(bytes, (size_t)about.st_size);
        }
    }
    if (fd >= 0)
        close(fd);
    publish(engine, handle, code);
}

struct code *code_of(struct engine *engine, uint64_t handle)
{
    return (struct code *)handle_map_get(&engine->codes, handle);
}

void code_derived(struct engine *engine, uint64_t handle, uint64_t parent)
{
    struct code *code = code_of(engine, parent), *before = code_of(engine, handle);

    if (code == before)
        return;
    if (code) {
        publish(engine, handle, code);
        return;
    }
    lock_take(&engine->code_lock); /* a recycled handle must not keep an origin that it has no more */
    handle_map_remove(&engine->codes, handle);
    lock_drop(&engine->code_lock);
}

void code_given(struct engine *engine, uint64_t handle)
{
    struct code *code = code_of(engine, handle);

    if (code)
        atomic_store_explicit(&code->given, true, memory_order_seq_cst);
}

struct code *code_gone(struct engine *engine, uint64_t handle)
{
    struct code *code = code_of(engine, handle);

    if (!code)
        return NULL;
    atomic_store_explicit(&code->gone, true, memory_order_seq_cst);
    lock_take(&code->reading);
    if (code->owned) {
        atomic_fetch_sub_explicit(&engine->code_copied, image_copy_bytes(&code->image), memory_order_relaxed);
        image_finish(&code->image);
    }
    code->owned = code->known = false;
    code->refusal = COALESCE_NO_IMAGE;
    lock_drop(&code->reading);
    lock_take(&engine->code_lock);
    handle_map_remove(&engine->codes, handle);
    lock_drop(&engine->code_lock);
    return code;
}
