/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce/coalesce.h"

static const char *const names[] = {
#define REFUSAL(name, text) #name,
#include "coalesce/refusals.def"
};

static const char *const texts[] = {
#define REFUSAL(name, text) text,
#include "coalesce/refusals.def"
};

const char *coalesce_refusal_name(enum coalesce_refusal refusal)
{
    return (unsigned)refusal < COALESCE_REFUSAL_COUNT ? names[refusal] : "UNKNOWN";
}

const char *coalesce_refusal_text(enum coalesce_refusal refusal)
{
    return (unsigned)refusal < COALESCE_REFUSAL_COUNT ? texts[refusal] : "for a reason that is not known here";
}

int coalesce_rewrite(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                     struct coalesce_output *output, enum coalesce_refusal *refusal)
{
    return source->code == COALESCE_PTX ? ptx_rewrite(source, sm, members, form, output, refusal)
                                        : sass_rewrite(source, sm, members, form, output, refusal);
}
