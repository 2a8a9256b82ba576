/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/policy.h"

#include <string.h>

static const struct sched_policy_ops *const policies[] = {
#define POLICY(name) &sched_policy_##name,
    SCHED_POLICIES(POLICY)
#undef POLICY
};

static const char *const policy_names[] = {
#define POLICY(name) #name,
    SCHED_POLICIES(POLICY)
#undef POLICY
        NULL,
};

const char *const *sched_policy_names(void)
{
    return policy_names;
}

const struct sched_policy_ops *sched_policy_find(const char *name)
{
    if (!name || !*name)
        return policies[0];
    for (size_t i = 0; policy_names[i]; i++)
        if (strcmp(policy_names[i], name) == 0)
            return policies[i];
    return NULL;
}
