/* SPDX-License-Identifier: Apache-2.0
 *
 * What the demo shows for people and for programs.
 */
#include "demo/demo.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void line(const char *label, uint64_t value)
{
    printf("  %-20s %12" PRIu64 "\n", label, value);
}

void result_print(const struct demo_options *options, const struct demo_result *result)
{
    unsigned int threaded = threaded_tenants(options->tenants);

    printf("coissue demo on %s\n", result->device);
    printf("%u tenants (%u threads, %u streams of one thread), %u rounds of %u launches each, and one to warm up\n\n",
           options->tenants, threaded, options->tenants - threaded, options->rounds, workload_launches);
    line("launches seen", result->counts.seen);
    line("held", result->counts.held);
    line("  alone", result->counts.alone);
    line("  co-scheduled", result->counts.coscheduled);
    line("  coalesced", result->counts.coalesced);
    printf("  %-20s %12s\n", "results equal", result->equal ? "yes" : "no");
    printf("  %-20s %12.1f ms\n", "time direct", result->direct_ms);
    printf("  %-20s %12.1f ms\n", "time with coissue", result->coissue_ms);
    printf("\n  trace: %s\n  (to look at it, open it in https://ui.perfetto.dev)\n", result->trace);
}

bool result_write_json(const struct demo_options *options, const struct demo_result *result)
{
    const struct launch_counts *counts = &result->counts;
    json_error_t error;
    json_t *object =
        json_pack_ex(&error, 0, "{s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:f, s:f, s:s, s:I, s:I}", "launches_seen",
                     (json_int_t)counts->seen, "launches_held", (json_int_t)counts->held, "alone",
                     (json_int_t)counts->alone, "coscheduled", (json_int_t)counts->coscheduled, "coalesced",
                     (json_int_t)counts->coalesced, "results_equal", (int)result->equal, "trace", result->trace,
                     "time_direct_ms", result->direct_ms, "time_coissue_ms", result->coissue_ms, "device",
                     result->device, "tenants", (json_int_t)options->tenants, "rounds", (json_int_t)options->rounds);
    FILE *file;
    bool fine;

    if (!object) {
        complain("%s: cannot make the object: %s", options->json, error.text);
        return false;
    }
    file = fopen(options->json, "w");
    fine = file && json_dumpf(object, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', file) != EOF;
    if (file && fclose(file))
        fine = false;
    if (!fine)
        complain("%s: cannot write: %s", options->json, strerror(errno));
    json_decref(object);
    return fine;
}
