/* SPDX-License-Identifier: Apache-2.0
 *
 * What the small libraries beside the test programs offer: probe.c, decoy.c, interposer.c.
 */
#ifndef COISSUE_TESTS_TRAPS_HELPERS_H
#define COISSUE_TESTS_TRAPS_HELPERS_H

#define TRAPS_EXPORT __attribute__((visibility("default")))

TRAPS_EXPORT int traps_probe_value(void);
TRAPS_EXPORT void *traps_probe_next(void);

TRAPS_EXPORT int cuInit(unsigned int flags);
TRAPS_EXPORT int cuEventRecord(void *event, void *stream);

/* How many look-ups went through the other interposer. Looked up by name: it is there only when it was preloaded. */
TRAPS_EXPORT int traps_interposed(void);

#endif
