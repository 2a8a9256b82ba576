/* SPDX-License-Identifier: Apache-2.0
 *
 * coalesce/: kernels that exist only as machine code or PTX, rewritten so that one launch does the work of several.
 *
 * A rewritten kernel is launched with grid (gx, gy, N) for N member launches of the original with grid (gx, gy, 1). Its
 * parameter area holds N blocks; a prologue turns the block's index on the last axis into the place of its member's
 * parameters, and every read of a parameter goes there. Arithmetic, control flow, shared memory, registers of the
 * original stay as they are, so results are equal bit for bit.
 *
 * What is here
 *   image.h       what programs give to the driver: fatbin wrappers, fatbins, cubins, PTX; which part a device takes
 *   cubin.h       a bounded, validating reader of cubins, and the builder of a cubin that holds one kernel
 *   sass.h        fields of machine instructions that matter here, per architecture
 *   sass_*.c      analysis and rewriting of machine code
 *   ptx_*.c       the same for PTX text
 *   isolated.c    whether a kernel is the same in another process
 *   pack.h        parameter area of a pack of launches
 *   refusals.def  why a kernel is not rewritten
 *
 * Invariants
 *  1. Bytes in, bytes out: no driver call, no clock, no thread, no file. Input is never written to.
 *  2. Input is hostile: it is validated in a pass of its own before anything is rewritten, every offset is checked
 *     before it is used, and work is bounded by the size of the input. What is not understood is refused, with a
 *     reason; a refused kernel runs as it is.
 *  3. Code is only appended to a kernel, never inserted: return addresses and tables of offsets stay right.
 *  4. A rewritten kernel with one member computes what the original computes. That is what the twin test runs.
 *
 * Errors are negative errno; -ENOTSUP comes with a refusal. All functions may be called from any thread.
 */
#ifndef COISSUE_COALESCE_COALESCE_H
#define COISSUE_COALESCE_COALESCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coalesce_refusal {
#define REFUSAL(name, text) COALESCE_##name,
#include "coalesce/refusals.def"
    COALESCE_REFUSAL_COUNT
};

const char *coalesce_refusal_name(enum coalesce_refusal refusal); /* "NO_REGISTER" */
const char *coalesce_refusal_text(enum coalesce_refusal refusal); /* the sentence of refusals.def */

enum coalesce_code { COALESCE_CUBIN, COALESCE_PTX };

/* One kernel's code: a whole cubin or a whole PTX text (without the need for a final NUL), as image.h finds it. */
struct coalesce_source {
    enum coalesce_code code;
    const void *bytes;
    size_t size;
    const char *kernel; /* its name as the driver says it (mangled) */
    /*
     * Where the program's loaded module has a variable, so that the rewritten kernel shares it. 0: not known; a kernel
     * that needs it is refused. May be NULL.
     */
    uint64_t (*address)(void *context, const char *symbol);
    void *context;
    bool unproven; /* also machine code of architectures on which no rewritten kernel ever ran */
};

enum {
    /*
     * The members' gridDim.z is larger than 1, the same for all: the pack's grid is (gx, gy, gz * N). Otherwise all
     * members have gridDim.z == 1.
     */
    COALESCE_FOLD = 1 << 0,
    /* gridDim.x and gridDim.y of the members may differ: the pack's grid has the largest of each. */
    COALESCE_RAGGED = 1 << 1,
};

/* The parameter area of a pack; all offsets from its start. */
struct coalesce_layout {
    uint32_t capacity;        /* members, at most */
    uint32_t parameter_bytes; /* of one member: what the original's layout says, no tail padding */
    uint32_t base;            /* of member 0's parameters */
    uint32_t stride;          /* from one member's parameters to the next's */
    uint32_t bytes;           /* of the whole area: base + (capacity - 1) * stride + parameter_bytes */
    unsigned form;            /* COALESCE_FOLD | COALESCE_RAGGED */
};

/*
 * What lies in the area beside parameters:
 *   COALESCE_MEMBER_HEADER bytes before each member's parameters: its gridDim as three u32 and a spare one.
 *   At 0, for COALESCE_FOLD: u32 ceil(2^32 / gz), u32 -gz. So the prologue divides by multiplying.
 */
enum { COALESCE_MEMBER_HEADER = 16, COALESCE_AREA_MAX = 32764 };

struct coalesce_output {
    void *image; /* a cubin or a NUL-terminated PTX text; free() it */
    size_t size; /* without the NUL */
    struct coalesce_layout layout;
    uint32_t code_bytes;   /* of the kernel, for the curious */
    uint32_t instructions; /* that were changed or added */
    bool constants;        /* it reads __constant__ variables: only valid while the program has not written them */
};

/*
 * Rewrites `source->kernel` for packs of up to `members` (lowered to what COALESCE_AREA_MAX allows) of the given form
 * on a device of compute capability `sm` (90 for 9.0). The kernel keeps its name in the new image. -ENOTSUP and
 * `*refusal`: it cannot be done; -EINVAL and `*refusal`: the image is not sound; -ENOMEM. Outputs are set only on
 * success, the refusal only on those two errors.
 */
int coalesce_rewrite(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                     struct coalesce_output *output, enum coalesce_refusal *refusal);

/* The two behind it. */
int sass_rewrite(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                 struct coalesce_output *output, enum coalesce_refusal *refusal);
int ptx_rewrite(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                struct coalesce_output *output, enum coalesce_refusal *refusal);

/*
 * Does the kernel compute the same if its module is loaded a second time, in another process? It does if it uses no
 * writable variable of the module, no texture, and no function of the driver that has state there (printf, malloc).
 * __constant__ variables are not looked at: whoever knows that the program can write them must refuse by itself. 0,
 * -ENOTSUP or -EINVAL with a refusal, -ENOMEM. Of `source`, only the code and the kernel's name are read.
 */
int coalesce_isolated(const struct coalesce_source *source, enum coalesce_refusal *refusal);

#endif
