/* SPDX-License-Identifier: Apache-2.0
 *
 * Code and kernels. Code is named by its content: what two clients send is one image here, loaded once for each set of
 * attributes that its kernels are used with, so that their launches are launches of one function.
 *
 * Images and what is loaded from them stay as long as the worker. All of it needs code_lock, which is held while the
 * driver loads.
 */
#include "broker/private.h"

#include "base/log.h"
#include "coalesce/coalesce.h"
#include "coalesce/image.h"
#include "engine/code.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IMAGES_MAX = 65536 };
#define IMAGES_BYTES_MAX (UINT64_C(4) << 30)

/* The image as loaded for kernels with these attributes; -1: what the driver gives them. */
struct loaded {
    int carveout, nonportable_cluster;
    CUlibrary library;
    struct loaded *next;
};

struct code_image {
    uint64_t hash[2];
    uint64_t bytes;
    bool ptx;
    char *content; /* NUL-terminated */
    struct loaded *loaded;
};

static int64_t find(const struct worker *worker, const uint64_t hash[2], uint64_t bytes, bool ptx)
{
    for (uint32_t i = 0; i < worker->image_count; i++) {
        const struct code_image *image = &worker->images[i];

        if (image->hash[0] == hash[0] && image->hash[1] == hash[1] && image->bytes == bytes && image->ptx == ptx)
            return i;
    }
    return -ENOENT;
}

int64_t code_known(struct worker *worker, const struct wire_request *request)
{
    int64_t number;

    lock_take(&worker->code_lock);
    number = find(worker, request->code.hash, request->code.bytes, request->code.ptx != 0);
    lock_drop(&worker->code_lock);
    return number;
}

/* The content of a descriptor, and a NUL. */
static int read_all(int fd, uint64_t bytes, char **content)
{
    struct stat about;
    uint64_t done = 0;
    char *memory;

    if (fd < 0 || fstat(fd, &about) < 0 || (uint64_t)about.st_size != bytes || bytes == 0 || bytes > IMAGE_BYTES_MAX)
        return -EINVAL;
    memory = malloc(bytes + 1);
    if (!memory)
        return -ENOMEM;
    while (done < bytes) {
        ssize_t got = pread(fd, memory + done, bytes - done, (off_t)done);

        if (got <= 0) {
            free(memory);
            return -EINVAL;
        }
        done += (uint64_t)got;
    }
    memory[bytes] = '\0';
    *content = memory;
    return 0;
}

/* Needs code_lock. */
static int64_t add(struct worker *worker, const struct code_image *image)
{
    struct code_image *images;

    if (worker->image_count >= IMAGES_MAX || image->bytes > IMAGES_BYTES_MAX - worker->image_bytes)
        return -ENOSPC;
    images = realloc(worker->images, (worker->image_count + 1) * sizeof(*images));
    if (!images)
        return -ENOMEM;
    worker->images = images;
    images[worker->image_count] = *image;
    worker->image_bytes += image->bytes;
    return worker->image_count++;
}

int64_t code_take(struct worker *worker, const struct wire_request *request, int fd)
{
    struct code_image image = {.bytes = request->code.bytes, .ptx = request->code.ptx != 0};
    int64_t number = read_all(fd, image.bytes, &image.content);
    struct image_digest digest;

    if (fd >= 0)
        close(fd);
    if (number < 0)
        return number;
    digest = image_hash(image.content, image.bytes, 0);
    memcpy(image.hash, digest.words, sizeof(image.hash));
    lock_take(&worker->code_lock);
    number = find(worker, image.hash, image.bytes, image.ptx);
    if (number == -ENOENT) {
        number = add(worker, &image);
        if (number >= 0)
            image.content = NULL;
    }
    lock_drop(&worker->code_lock);
    free(image.content);
    return number;
}

/*
 * A kernel runs here only if it is the same kernel here: if it uses no writable variable of its module and calls
 * nothing of the driver. The rewriter finds that out on its way, so a kernel that it takes may come; of the others this
 * is asked alone.
 */
static int check_isolated(const struct worker *worker, const struct code_image *image, const char *kernel,
                          enum coalesce_refusal *refusal)
{
    struct coalesce_source source = {.code = image->ptx ? COALESCE_PTX : COALESCE_CUBIN,
                                     .bytes = image->content,
                                     .size = image->bytes,
                                     .kernel = kernel,
                                     .unproven = true};
    struct coalesce_output output;

    if (coalesce_rewrite(&source, worker->capability, 1, 0, &output, refusal) < 0)
        return coalesce_isolated(&source, refusal);
    free(output.image);
    return 0;
}

/* Needs code_lock, and the context current. */
static int load(struct worker *worker, struct code_image *image, int carveout, int nonportable_cluster,
                struct loaded **found)
{
    struct loaded *loaded;

    for (loaded = image->loaded; loaded; loaded = loaded->next)
        if (loaded->carveout == carveout && loaded->nonportable_cluster == nonportable_cluster) {
            *found = loaded;
            return 0;
        }
    loaded = calloc(1, sizeof(*loaded));
    if (!loaded)
        return -ENOMEM;
    if (worker->driver.cuLibraryLoadData(&loaded->library, image->content, NULL, NULL, 0, NULL, NULL, 0) !=
        CUDA_SUCCESS) {
        free(loaded);
        return -EIO;
    }
    loaded->carveout = carveout;
    loaded->nonportable_cluster = nonportable_cluster;
    loaded->next = image->loaded;
    image->loaded = loaded;
    code_loaded(worker->engine, (uint64_t)loaded->library, true, image->content);
    *found = loaded;
    return 0;
}

static CUresult set_attribute(const struct worker *worker, CUkernel kernel, CUfunction_attribute attribute, int value,
                              bool raise_only)
{
    int now;

    if (value < 0 || (worker->driver.cuKernelGetAttribute(&now, attribute, kernel, worker->device) == CUDA_SUCCESS &&
                      (raise_only ? now >= value : now == value)))
        return CUDA_SUCCESS;
    function_forget_all(worker->engine);
    return worker->driver.cuKernelSetAttribute(attribute, value, kernel, worker->device);
}

/* Needs code_lock, and the context current. */
static int get_function(struct worker *worker, struct code_image *image, const struct wire_request *request,
                        const struct function **function, char *text, size_t size)
{
    int carveout = request->function.carveout, cluster = request->function.nonportable_cluster;
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct loaded *loaded;
    CUkernel kernel;
    int error = check_isolated(worker, image, request->text, &refusal);

    if (error < 0) {
        snprintf(text, size, "%s", coalesce_refusal_text(refusal));
        return -ENOTSUP;
    }
    error = load(worker, image, carveout, cluster, &loaded);
    if (error < 0 || worker->driver.cuLibraryGetKernel(&kernel, loaded->library, request->text) != CUDA_SUCCESS) {
        snprintf(text, size, "the driver does not load it here");
        return error < 0 ? error : -ENOENT;
    }
    code_derived(worker->engine, (uint64_t)kernel, (uint64_t)loaded->library);
    /* The dynamic shared memory is a limit: the largest that anybody wants does not change what others get. */
    if (set_attribute(worker, kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                      request->function.shared_dynamic_max, true) != CUDA_SUCCESS ||
        set_attribute(worker, kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, carveout, false) !=
            CUDA_SUCCESS ||
        set_attribute(worker, kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, cluster, false) !=
            CUDA_SUCCESS) {
        snprintf(text, size, "its attributes cannot be set here");
        return -EIO;
    }
    *function = function_get(worker->engine, (CUfunction)kernel);
    if (!*function || (*function)->parameter_bytes != request->function.parameter_bytes) {
        snprintf(text, size, "its parameters are not those of the client's kernel");
        return -EINVAL;
    }
    return 0;
}

int code_function(struct worker *worker, const struct wire_request *request, const struct function **function,
                  char *text, size_t size)
{
    int error = -EINVAL;

    lock_take(&worker->code_lock);
    if (request->function.code < worker->image_count)
        error = get_function(worker, &worker->images[request->function.code], request, function, text, size);
    else
        snprintf(text, size, "a kernel of code that was never sent");
    lock_drop(&worker->code_lock);
    return error;
}
