/* SPDX-License-Identifier: Apache-2.0
 *
 * Where kernels come from: which image the program gave to the driver for each of its functions, so that a kernel can
 * be rewritten later, in the background.
 *
 * An image in a loaded file (a framework's fatbin) is only pointed to; it stays until its library is unloaded, which
 * the program must tell the driver first. Any other image is copied when it is loaded, since the program may free it
 * when the call returns; copies are bounded (CODE_COPIES_MAX). Structures live as long as the process, so that a
 * pointer to one names a load for ever; a handle that the driver recycles is noted anew when the program gets it.
 *
 * Writers take engine->code.lock; launches never do. Any thread.
 */
#ifndef COISSUE_ENGINE_CODE_H
#define COISSUE_ENGINE_CODE_H

#include "coalesce/image.h"
#include "engine/engine.h"

enum { CODE_COPIES_MAX = 256 << 20 };

struct twin;

struct code {
    uint64_t handle; /* CUmodule or CUlibrary */
    bool library;
    bool known;         /* `image` can be read; else `refusal` says why not */
    bool owned;         /* `image` is a copy */
    _Atomic bool given; /* the program got the address of a variable, so it may write to constants */
    _Atomic bool gone;  /* unloaded */
    enum coalesce_refusal refusal;
    struct image image;
    struct lock reading; /* held while the image is read, and while it goes */
    struct twin *twins;  /* what was made from it. Needs the lock of twin.c */
};

/* A module or library was loaded from memory, or from the named file. Never fails: what cannot be kept is refused. */
void code_loaded(struct engine *engine, uint64_t handle, bool library, const void *bytes);
void code_loaded_file(struct engine *engine, uint64_t handle, bool library, const char *path);

/* `handle` (a function, a kernel, a library's module) comes from `parent` (a module, library or kernel). */
void code_derived(struct engine *engine, uint64_t handle, uint64_t parent);

/* The program got the address of a variable of this module or library. */
void code_given(struct engine *engine, uint64_t handle);

/* It will be unloaded. Waits for a reader; after this nobody reads it. NULL: not known. */
struct code *code_gone(struct engine *engine, uint64_t handle);

/* Where a function comes from, or NULL. */
struct code *code_of(struct engine *engine, uint64_t handle);

#endif
