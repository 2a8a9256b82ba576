/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce/coalesce.h"
#include <errno.h>
int sass_rewrite(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                 struct coalesce_output *output, enum coalesce_refusal *refusal)
{
    *refusal = COALESCE_ARCHITECTURE;
    return -ENOTSUP;
}
