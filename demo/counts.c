/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts launches in a trace of coissue. A call that held its launch is a slice that says so, on the track of its
 * thread. What was issued is a slice of category "issue" with a grid (operations that are no kernels have none), whose
 * "decision" says which way it went; "home" is a launch that was not held. Several launches that were issued as one are
 * one slice, which says how many "members" it has.
 */
#include "demo/demo.h"

#include <jansson.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void count_event(const json_t *event, struct launch_counts *counts)
{
    const json_t *args = json_object_get(event, "args");
    const char *decision = text_of(args, "decision");

    if (strcmp(text_of(event, "cat"), "cuda_driver") == 0 && strcmp(text_of(args, "call"), "held") == 0) {
        counts->seen++;
        counts->held++;
    }
    if (strcmp(text_of(event, "cat"), "issue") != 0 || !json_object_get(args, "grid"))
        return;
    counts->seen += strcmp(decision, "home") == 0;
    counts->alone += strcmp(decision, "alone") == 0;
    counts->coscheduled += strcmp(decision, "coschedule") == 0;
    if (strcmp(decision, "coalesce") == 0)
        counts->coalesced += (uint64_t)json_integer_value(json_object_get(args, "members"));
}

bool counts_read(const char *path, struct launch_counts *counts)
{
    json_error_t error;
    json_t *trace = json_load_file(path, 0, &error);
    const json_t *events = json_object_get(trace, "traceEvents");
    const json_t *lost = json_object_get(json_object_get(trace, "otherData"), "lost events");
    bool fine = json_is_array(events) && json_is_integer(lost);
    struct launch_counts found = {0};

    if (!trace)
        complain("the trace %s cannot be read: %s (line %d)", path, error.text, error.line);
    else if (!fine)
        complain("the trace %s has no events or does not say how many were lost", path);
    for (size_t i = 0; fine && i < json_array_size(events); i++)
        count_event(json_array_get(events, i), &found);
    if (fine) {
        found.lost = (uint64_t)json_integer_value(lost);
        *counts = found;
    }
    json_decref(trace);
    return fine;
}
