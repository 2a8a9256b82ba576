/* SPDX-License-Identifier: Apache-2.0
 *
 * From the PTX ISA, version 9.0. A list of what is known to be harmless, not of what is harmful: an opcode or a
 * register that a later version adds is refused until somebody has looked at it.
 */
#include "coalesce/ptx_body.h"

#include <stdlib.h>
#include <string.h>

/* Sorted. Left out: clusterlaunchcontrol, which hands out blocks of the grid as it is launched. */
static const char *const opcodes[] = {
    "abs",           "activemask", "add",
    "addc",          "alloca",     "and",
    "applypriority", "atom",       "bar",
    "barrier",       "bfe",        "bfi",
    "bfind",         "bmsk",       "bra",
    "brev",          "brkpt",      "brx",
    "call",          "clz",        "cnot",
    "copysign",      "cos",        "cp",
    "createpolicy",  "cvt",        "cvta",
    "discard",       "div",        "dp2a",
    "dp4a",          "elect",      "ex2",
    "exit",          "fence",      "fma",
    "fns",           "getctarank", "griddepcontrol",
    "isspacep",      "istypep",    "ld",
    "ldmatrix",      "ldu",        "lg2",
    "lop3",          "mad",        "mad24",
    "madc",          "mapa",       "match",
    "max",           "mbarrier",   "membar",
    "min",           "mma",        "mov",
    "movmatrix",     "mul",        "mul24",
    "multimem",      "nanosleep",  "neg",
    "not",           "or",         "pmevent",
    "popc",          "prefetch",   "prefetchu",
    "prmt",          "rcp",        "red",
    "redux",         "rem",        "ret",
    "rsqrt",         "sad",        "selp",
    "set",           "setmaxnreg", "setp",
    "shf",           "shfl",       "shl",
    "shr",           "sin",        "slct",
    "sqrt",          "st",         "stackrestore",
    "stacksave",     "stmatrix",   "sub",
    "subc",          "suld",       "suq",
    "sured",         "sust",       "szext",
    "tanh",          "tcgen05",    "tensormap",
    "testp",         "tex",        "tld4",
    "trap",          "txq",        "vabsdiff",
    "vabsdiff2",     "vabsdiff4",  "vadd",
    "vadd2",         "vadd4",      "vavrg2",
    "vavrg4",        "vmad",       "vmax",
    "vmax2",         "vmax4",      "vmin",
    "vmin2",         "vmin4",      "vote",
    "vset",          "vset2",      "vset4",
    "vshl",          "vshr",       "vsub",
    "vsub2",         "vsub4",      "wgmma",
    "wmma",          "xor",
};

/* Sorted. */
static const struct special {
    const char *name;
    enum ptx_special special;
} specials[] = {
    {"%aggr_smem_size", PTX_SPECIAL_KEPT},
    {"%clock", PTX_SPECIAL_KEPT},
    {"%clock64", PTX_SPECIAL_KEPT},
    {"%clock_hi", PTX_SPECIAL_KEPT},
    {"%cluster_ctaid", PTX_SPECIAL_KEPT}, /* within the cluster, which does not extend along z */
    {"%cluster_ctarank", PTX_SPECIAL_KEPT},
    {"%cluster_nctaid", PTX_SPECIAL_KEPT},
    {"%cluster_nctarank", PTX_SPECIAL_KEPT},
    {"%clusterid", PTX_SPECIAL_CLUSTER},
    {"%ctaid", PTX_SPECIAL_BLOCK},
    {"%current_graph_exec", PTX_SPECIAL_CHANGED},
    {"%dynamic_smem_size", PTX_SPECIAL_KEPT},
    {"%globaltimer", PTX_SPECIAL_KEPT},
    {"%globaltimer_hi", PTX_SPECIAL_KEPT},
    {"%globaltimer_lo", PTX_SPECIAL_KEPT},
    {"%gridid", PTX_SPECIAL_CHANGED},
    {"%is_explicit_cluster", PTX_SPECIAL_KEPT},
    {"%laneid", PTX_SPECIAL_KEPT},
    {"%lanemask_eq", PTX_SPECIAL_KEPT},
    {"%lanemask_ge", PTX_SPECIAL_KEPT},
    {"%lanemask_gt", PTX_SPECIAL_KEPT},
    {"%lanemask_le", PTX_SPECIAL_KEPT},
    {"%lanemask_lt", PTX_SPECIAL_KEPT},
    {"%nclusterid", PTX_SPECIAL_CLUSTER},
    {"%nctaid", PTX_SPECIAL_GRID},
    {"%nsmid", PTX_SPECIAL_KEPT},
    {"%ntid", PTX_SPECIAL_KEPT},
    {"%nwarpid", PTX_SPECIAL_KEPT},
    {"%pm0", PTX_SPECIAL_KEPT},
    {"%pm0_64", PTX_SPECIAL_KEPT},
    {"%pm1", PTX_SPECIAL_KEPT},
    {"%pm1_64", PTX_SPECIAL_KEPT},
    {"%pm2", PTX_SPECIAL_KEPT},
    {"%pm2_64", PTX_SPECIAL_KEPT},
    {"%pm3", PTX_SPECIAL_KEPT},
    {"%pm3_64", PTX_SPECIAL_KEPT},
    {"%pm4", PTX_SPECIAL_KEPT},
    {"%pm4_64", PTX_SPECIAL_KEPT},
    {"%pm5", PTX_SPECIAL_KEPT},
    {"%pm5_64", PTX_SPECIAL_KEPT},
    {"%pm6", PTX_SPECIAL_KEPT},
    {"%pm6_64", PTX_SPECIAL_KEPT},
    {"%pm7", PTX_SPECIAL_KEPT},
    {"%pm7_64", PTX_SPECIAL_KEPT},
    {"%reserved_smem_offset_0", PTX_SPECIAL_KEPT},
    {"%reserved_smem_offset_1", PTX_SPECIAL_KEPT},
    {"%reserved_smem_offset_begin", PTX_SPECIAL_KEPT},
    {"%reserved_smem_offset_cap", PTX_SPECIAL_KEPT},
    {"%reserved_smem_offset_end", PTX_SPECIAL_KEPT},
    {"%smid", PTX_SPECIAL_KEPT},
    {"%tid", PTX_SPECIAL_KEPT},
    {"%total_smem_size", PTX_SPECIAL_KEPT},
    {"%warpid", PTX_SPECIAL_KEPT},
};

static int compare(struct ptx_span name, const char *known)
{
    return ptx_span_compare(name, (struct ptx_span){known, strlen(known)});
}

static int compare_opcode(const void *key, const void *element)
{
    return compare(*(const struct ptx_span *)key, *(const char *const *)element);
}

bool ptx_opcode_known(struct ptx_span name)
{
    return bsearch(&name, opcodes, sizeof(opcodes) / sizeof(opcodes[0]), sizeof(opcodes[0]), compare_opcode) != NULL;
}

static int compare_special(const void *key, const void *element)
{
    return compare(*(const struct ptx_span *)key, ((const struct special *)element)->name);
}

/*
 * Whatever else looks like a register and was not declared (%envreg3, or one of a later version) changes, to be safe.
 */
enum ptx_special ptx_special_of(struct ptx_span name)
{
    size_t count = sizeof(specials) / sizeof(specials[0]);
    const struct special *found = bsearch(&name, specials, count, sizeof(specials[0]), compare_special);

    if (!found)
        return name.length && *name.at == '%' ? PTX_SPECIAL_CHANGED : PTX_SPECIAL_NONE;
    return found->special;
}
