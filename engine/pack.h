/* SPDX-License-Identifier: Apache-2.0
 *
 * Carrying out a decision to coalesce. Internal to engine/; the device's thread only.
 */
#ifndef COISSUE_ENGINE_PACK_H
#define COISSUE_ENGINE_PACK_H

#include "engine/device.h"

/* Issues the head of a lane whose issue lock is held and whose context is current. */
typedef void (*pack_issue_one_fn)(struct device *device, struct lane *lane, enum sched_reason reason);

/* Issues the members as one launch, as far as that can be done; `issue_one` is for those with which it cannot. */
void pack_issue(struct device *device, const struct sched_decision *decision, pack_issue_one_fn issue_one);

#endif
