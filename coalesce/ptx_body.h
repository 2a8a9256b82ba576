/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of PTX functions: what they declare, and their text with the reads of parameters, of the grid and of module
 * variables replaced.
 */
#ifndef COISSUE_COALESCE_PTX_BODY_H
#define COISSUE_COALESCE_PTX_BODY_H

#include "coalesce/ptx_module.h"

#include <errno.h>

/* A growing text. After an error `failed` stays set and nothing more is added. */
struct ptx_text {
    char *bytes;
    size_t size, room;
    bool failed;
};

void ptx_text_add(struct ptx_text *text, const char *bytes, size_t size);
void ptx_text_print(struct ptx_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct ptx_parameter {
    struct ptx_span name;
    uint32_t offset, size;
};

/* What is rewritten, and what was found on the way. */
struct ptx_job {
    const struct coalesce_source *source;
    struct ptx_module module;
    unsigned sm, form;

    struct ptx_parameter *parameters; /* sorted by name */
    size_t parameter_count, parameter_room;
    uint32_t parameter_bytes;
    struct coalesce_layout layout;

    struct ptx_text out;
    uint32_t instructions; /* changed or added */
    bool constants;        /* reads .const variables */
    enum coalesce_refusal refusal;
};

/* Words that begin so are ours; a program that has one is refused. */
#define PTX_OURS "coissue_"
#define PTX_AREA PTX_OURS "area" /* the one parameter */

static inline int ptx_refuse(struct ptx_job *job, enum coalesce_refusal why)
{
    job->refusal = why;
    return -ENOTSUP;
}

/* Appends the item's text, rewritten: `kernel` when it is the kernel, so that parameters and grid have a place. */
int ptx_body_rewrite(struct ptx_job *job, const struct ptx_item *item, bool kernel);

/* ---- tables ---- */

/* What a special register means to a kernel in a pack. */
enum ptx_special {
    PTX_SPECIAL_NONE,    /* not one */
    PTX_SPECIAL_KEPT,    /* the same in a pack */
    PTX_SPECIAL_BLOCK,   /* %ctaid */
    PTX_SPECIAL_GRID,    /* %nctaid */
    PTX_SPECIAL_CLUSTER, /* %clusterid, %nclusterid: x and y are kept if grids are equal */
    PTX_SPECIAL_CHANGED, /* a pack changes it and nothing can be put in its place */
};
enum ptx_special ptx_special_of(struct ptx_span name);

/* Opcodes that do in a pack what they do alone. What is not among them is refused. */
bool ptx_opcode_known(struct ptx_span name);

#endif
