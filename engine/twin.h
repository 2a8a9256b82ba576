/* SPDX-License-Identifier: Apache-2.0
 *
 * Twins: the rewritten forms of a kernel, loaded beside the original.
 *
 * A twin is asked for when a pack would need it, and made by a thread of its own: the image is searched, the kernel
 * rewritten and loaded, its attributes are made those of the original. No launch waits for that; until the twin is
 * ready, and for ever if it is refused, the members of the pack are issued one by one.
 *
 * A twin has room for as many members as a pack may have, or as fit into the largest parameter area. The driver copies
 * no more of the area than the launch says, and the launch costs accordingly (measured, bench/h200/micro.py).
 *
 * Twins are libraries (CUlibrary), not modules: one serves all contexts. One whose code holds the address of a
 * variable serves the context in which that address is valid, `bound`.
 *
 * A twin goes with the image of its original (twins_end). Structures live as long as the process.
 */
#ifndef COISSUE_ENGINE_TWIN_H
#define COISSUE_ENGINE_TWIN_H

#include "coalesce/coalesce.h"
#include "engine/code.h"
#include "engine/function.h"
#include "engine/lane.h"

enum { TWIN_ONE, TWIN_MANY, TWIN_CLASSES }; /* members: 1, SCHED_PACK_MAX */
enum { TWIN_FORMS = (COALESCE_FOLD | COALESCE_RAGGED) + 1 };

enum twin_state {
    TWIN_ASKED,   /* on its way */
    TWIN_READY,   /* may be launched */
    TWIN_REFUSED, /* never */
};

struct twin {
    _Atomic uint32_t state; /* release when it leaves TWIN_ASKED; what follows is constant then */
    enum coalesce_refusal refusal;
    CUfunction handle; /* a CUkernel in its place */
    CUlibrary library;
    CUcontext bound; /* NULL: any */
    bool constants;  /* valid only while the program has not got the address of a variable */
    struct coalesce_layout layout;

    const struct function *function;
    struct context *context; /* where it was asked for */
    unsigned form;
    uint32_t members;
    struct twin *next; /* in the queue, then in code->twins */
};

/*
 * The twin for packs of this form in a context if it is ready and may be used, else NULL; if nobody asked for it
 * yet, it is asked for. Never waits. The device's thread.
 */
const struct twin *twin_get(struct engine *engine, const struct function *function, struct context *context,
                            unsigned form);

/* The driver refused to launch it, so it is never tried again. */
void twin_failed(const struct twin *twin, CUresult result);

/* The same for one member, made on the spot if need be. For verification. Its context must be current. */
const struct twin *twin_of_one(struct engine *engine, const struct function *function, struct context *context,
                               unsigned form);

/* Is there hope that launches of this function can be coalesced in this form? */
bool function_may_pack(const struct function *function, unsigned form);

/* The image of their original goes: what was made from it is unloaded. All packs must have been issued. */
void twins_end(struct engine *engine, struct code *code);

/* Writes a report of all functions and their twins as JSON: what was launched, what was refused and why. -errno. */
int twins_report(struct engine *engine, int fd);

#endif
