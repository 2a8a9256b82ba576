/* SPDX-License-Identifier: Apache-2.0
 *
 * coissue trace: a trace in numbers.
 *
 * A call that held its launch is a slice that says so. What was issued is a slice of category "issue" with a grid
 * (operations that are no kernels have none), whose "decision" says which way it went; "home" is a launch that was not
 * held. A pack, several launches that were issued as one, is one such slice with "pack" and "members"; what it says of
 * each launch is at the end of the launch's pair of category "held". Attempts to rewrite a kernel are slices of
 * category "rewrite". A file that does not look like this is refused with the number of the event.
 */
#include "cli/cli.h"

#include "base/base.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "usage: coissue trace FILE [--json]\n"
    "\n"
    "Shows how many launches went which way, how long they were held, for each lane and in all, and the\n"
    "reasons; how many were issued as one; and which kernels could not be rewritten for that. FILE is what "
    "COISSUE_TRACE or 'coissue run --trace' made.\n";

enum way { ALONE, COSCHEDULE, COALESCE, HOME, WAYS };

static const char *const way_names[WAYS] = {"alone", "coschedule", "coalesce", "home"};
static const char *const way_keys[WAYS] = {"alone", "coscheduled", "coalesced", "not_held"};

struct group {
    int64_t lane; /* -1: all lanes */
    char name[96];
    uint64_t held;           /* calls that held */
    uint64_t launches[WAYS]; /* issued so */
    double *held_us;         /* one for each launch that was issued after a hold; owned */
    size_t held_count, held_room;
};

struct reason {
    char *name, *text; /* owned */
    enum way way;
    uint64_t count; /* launches that went so; or forms of kernels that were refused */
};

struct reasons {
    struct reason *at; /* owned */
    size_t count;
};

struct summary {
    const char *file;
    json_t *root; /* owned */
    uint64_t operations, flushes, lost;
    struct group all;
    struct group *lanes; /* owned, by number */
    size_t lane_count;
    struct reasons reasons;
    uint64_t packs, packed, widest; /* packs, launches in them, launches in the largest */
    uint64_t rewritten, refused;    /* forms of kernels */
    struct reasons refusals;
};

static void finish_reasons(struct reasons *reasons)
{
    for (size_t i = 0; i < reasons->count; i++) {
        free(reasons->at[i].name);
        free(reasons->at[i].text);
    }
    free(reasons->at);
}

static void finish(struct summary *summary)
{
    json_decref(summary->root);
    for (size_t i = 0; i < summary->lane_count; i++)
        free(summary->lanes[i].held_us);
    free(summary->all.held_us);
    free(summary->lanes);
    finish_reasons(&summary->reasons);
    finish_reasons(&summary->refusals);
}

/* Says what is wrong with an event; the answer is always false. */
static bool bad_event(const struct summary *summary, size_t index, const char *what)
{
    cli_complain("%s: event %zu %s", summary->file, index, what);
    return false;
}

static bool out_of_memory(void)
{
    cli_complain("out of memory");
    return false;
}

/* --- reading --- */

static bool load(struct summary *summary)
{
    json_error_t error;
    struct stat info;
    FILE *file = fopen(summary->file, "r");

    if (!file || fstat(fileno(file), &info)) {
        cli_complain("%s: %s", summary->file, strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        cli_complain("%s: it is a folder", summary->file);
    } else if (S_ISREG(info.st_mode) && info.st_size == 0) {
        cli_complain("%s: the file is empty", summary->file);
    } else {
        summary->root = json_loadf(file, 0, &error);
        if (!summary->root)
            cli_complain("%s: line %d, column %d: %s", summary->file, error.line, error.column, error.text);
    }
    if (file)
        fclose(file);
    return summary->root;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static bool is_ours(const struct summary *summary)
{
    const json_t *about = json_object_get(summary->root, "otherData");

    if (!json_is_object(summary->root))
        cli_complain("%s: not a trace: no JSON object", summary->file);
    else if (!json_is_array(json_object_get(summary->root, "traceEvents")))
        cli_complain("%s: not a trace: no list 'traceEvents'", summary->file);
    else if (strcmp(text_of(about, "tool"), "coissue") != 0)
        cli_complain("%s: not a trace of coissue: 'otherData' does not say so", summary->file);
    else
        return true;
    return false;
}

/* Makes room for one more element. False if there is none. */
static bool grow(void *array, size_t count, size_t *room, size_t size)
{
    size_t more = *room ? 2 * *room : 16;
    void *moved;

    if (count < *room)
        return true;
    moved = realloc(*(void **)array, more * size);
    if (!moved)
        return out_of_memory();
    *(void **)array = moved;
    *room = more;
    return true;
}

static struct group *find_lane(struct summary *summary, int64_t lane)
{
    size_t at = 0;
    struct group *moved;

    while (at < summary->lane_count && summary->lanes[at].lane < lane)
        at++;
    if (at < summary->lane_count && summary->lanes[at].lane == lane)
        return &summary->lanes[at];
    moved = realloc(summary->lanes, (summary->lane_count + 1) * sizeof(*moved));
    if (!moved) {
        out_of_memory();
        return NULL;
    }
    summary->lanes = moved;
    memmove(moved + at + 1, moved + at, (summary->lane_count - at) * sizeof(*moved));
    summary->lane_count++;
    moved[at] = (struct group){.lane = lane};
    snprintf(moved[at].name, sizeof(moved[at].name), "lane %" PRId64, lane);
    return &moved[at];
}

static bool add_hold(struct group *group, double held_us)
{
    if (!grow(&group->held_us, group->held_count, &group->held_room, sizeof(*group->held_us)))
        return false;
    group->held_us[group->held_count++] = held_us;
    return true;
}

static bool add_reason(struct reasons *reasons, const char *name, const char *text, enum way way)
{
    struct reason *moved;

    for (size_t i = 0; i < reasons->count; i++) {
        if (reasons->at[i].way == way && strcmp(reasons->at[i].name, name) == 0) {
            reasons->at[i].count++;
            return true;
        }
    }
    moved = realloc(reasons->at, (reasons->count + 1) * sizeof(*moved));
    if (!moved)
        return out_of_memory();
    reasons->at = moved;
    moved += reasons->count;
    *moved = (struct reason){strdup(name), strdup(text), way, 1};
    reasons->count++;
    return (moved->name && moved->text) || out_of_memory();
}

static bool add_launch(struct summary *summary, size_t index, const json_t *args)
{
    const json_t *lane = json_object_get(args, "lane"), *held = json_object_get(args, "held_us");
    const char *decision = text_of(args, "decision");
    struct group *group;
    enum way way = 0;

    while (way < WAYS && strcmp(decision, way_names[way]) != 0)
        way++;
    if (way == WAYS)
        return bad_event(summary, index, "is an issued launch without a known 'decision'");
    summary->all.launches[way]++;
    if (!add_reason(&summary->reasons, text_of(args, "reason"), text_of(args, "reason text"), way))
        return false;
    if (way == HOME)
        return true; /* it never was in a lane */
    if (!json_is_integer(lane) || json_integer_value(lane) < 0)
        return bad_event(summary, index, "is an issued launch without a number 'lane'");
    if (!json_is_number(held) || json_number_value(held) < 0)
        return bad_event(summary, index, "is an issued launch without a time 'held_us'");
    group = find_lane(summary, json_integer_value(lane));
    if (!group)
        return false;
    group->launches[way]++;
    return add_hold(group, json_number_value(held)) && add_hold(&summary->all, json_number_value(held));
}

static bool add_pack(struct summary *summary, size_t index, const json_t *args)
{
    json_int_t members = json_integer_value(json_object_get(args, "members"));

    if (members < 1)
        return bad_event(summary, index, "is a pack without a number 'members'");
    summary->packs++;
    summary->packed += (uint64_t)members;
    if ((uint64_t)members > summary->widest)
        summary->widest = (uint64_t)members;
    return true;
}

static bool add_rewrite(struct summary *summary, size_t index, const json_t *args)
{
    const json_t *rewritten = json_object_get(args, "rewritten");

    if (!json_is_boolean(rewritten))
        return bad_event(summary, index, "is a rewriting that does not say whether it was 'rewritten'");
    if (json_is_true(rewritten)) {
        summary->rewritten++;
        return true;
    }
    summary->refused++;
    return add_reason(&summary->refusals, text_of(args, "result"), text_of(args, "result text"), 0);
}

static bool add_call(struct summary *summary, size_t index, const json_t *args)
{
    const json_t *lane = json_object_get(args, "lane");
    struct group *group;

    /* The calls that are traced and have no launch are those that flushed. */
    summary->flushes += !json_object_get(args, "correlation");
    if (strcmp(text_of(args, "call"), "held") != 0)
        return true;
    if (!json_is_integer(lane) || json_integer_value(lane) < 0)
        return bad_event(summary, index, "is a held launch without a number 'lane'");
    group = find_lane(summary, json_integer_value(lane));
    if (!group)
        return false;
    group->held++;
    summary->all.held++;
    return true;
}

static bool add_event(struct summary *summary, size_t index, const json_t *event)
{
    const char *category = text_of(event, "cat");
    const json_t *args = json_object_get(event, "args");
    bool issue = strcmp(category, "issue") == 0, call = strcmp(category, "cuda_driver") == 0;
    bool rewrite = strcmp(category, "rewrite") == 0, pack = json_object_get(args, "pack");

    if (!json_is_object(event))
        return bad_event(summary, index, "is not an object");
    if (!json_is_string(json_object_get(event, "ph")))
        return bad_event(summary, index, "has no 'ph'");
    if (pack && strcmp(category, "held") == 0)
        return add_launch(summary, index, args);
    if (!issue && !call && !rewrite)
        return true;
    if (!json_is_object(args))
        return bad_event(summary, index, "is a call or an issue without 'args'");
    if (rewrite)
        return add_rewrite(summary, index, args);
    if (call)
        return add_call(summary, index, args);
    if (pack)
        return add_pack(summary, index, args);
    if (json_object_get(args, "grid"))
        return add_launch(summary, index, args);
    summary->operations++;
    return true;
}

/* Lanes are the threads of a process of that name in the trace. */
static void name_lanes(struct summary *summary, const json_t *events)
{
    json_int_t pid = -1;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const char *name = text_of(json_object_get(event, "args"), "name");
        json_int_t event_pid = json_integer_value(json_object_get(event, "pid"));

        if (strcmp(text_of(event, "ph"), "M") != 0)
            continue;
        if (strcmp(text_of(event, "name"), "process_name") == 0 && strcmp(name, "coissue lanes") == 0)
            pid = event_pid;
        if (strcmp(text_of(event, "name"), "thread_name") != 0 || event_pid != pid)
            continue;
        for (size_t lane = 0; lane < summary->lane_count; lane++)
            if (summary->lanes[lane].lane == json_integer_value(json_object_get(event, "tid")) - 1)
                snprintf(summary->lanes[lane].name, sizeof(summary->lanes[lane].name), "%s", name);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int by_count(const void *a, const void *b)
{
    const struct reason *x = a, *y = b;

    if (x->way != y->way)
        return x->way < y->way ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void sort(struct summary *summary)
{
    if (summary->all.held_count)
        qsort(summary->all.held_us, summary->all.held_count, sizeof(double), by_value);
    for (size_t i = 0; i < summary->lane_count; i++)
        if (summary->lanes[i].held_count)
            qsort(summary->lanes[i].held_us, summary->lanes[i].held_count, sizeof(double), by_value);
    if (summary->reasons.count)
        qsort(summary->reasons.at, summary->reasons.count, sizeof(struct reason), by_count);
    if (summary->refusals.count)
        qsort(summary->refusals.at, summary->refusals.count, sizeof(struct reason), by_count);
}

static bool summarise(struct summary *summary)
{
    const json_t *events, *lost;

    summary->all = (struct group){.lane = -1, .name = "all lanes"};
    if (!load(summary) || !is_ours(summary))
        return false;
    events = json_object_get(summary->root, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++)
        if (!add_event(summary, i, json_array_get(events, i)))
            return false;
    lost = json_object_get(json_object_get(summary->root, "otherData"), "lost events");
    summary->lost = (uint64_t)json_integer_value(lost);
    name_lanes(summary, events);
    sort(summary);
    return true;
}

/* --- showing --- */

/* Nearest rank: the smallest value that at least `percent` of all do not exceed. */
static double percentile(const struct group *group, unsigned int percent)
{
    size_t rank = (group->held_count * percent + 99) / 100;

    return group->held_count ? group->held_us[rank ? rank - 1 : 0] : 0;
}

static void print_group(const struct group *group)
{
    printf("%8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "  %9.1f %9.1f %9.1f %9.1f  %s\n", group->held,
           group->launches[ALONE], group->launches[COSCHEDULE], group->launches[COALESCE], percentile(group, 50),
           percentile(group, 90), percentile(group, 99), percentile(group, 100), group->name);
}

static double mean_width(const struct summary *summary)
{
    return summary->packs ? (double)summary->packed / (double)summary->packs : 0;
}

static void print_coalescing(const struct summary *summary)
{
    if (summary->packs)
        printf("packs: %" PRIu64 ", of %.1f launches on average and %" PRIu64 " at most\n", summary->packs,
               mean_width(summary), summary->widest);
    if (summary->rewritten || summary->refused)
        printf("forms of kernels rewritten for packs: %" PRIu64 ", not rewritten: %" PRIu64 "\n", summary->rewritten,
               summary->refused);
}

static void print_reasons(const struct summary *summary)
{
    static const char *const way_texts[WAYS] = {"alone", "co-scheduled", "coalesced", "not held"};

    if (summary->reasons.count)
        puts("\nlaunches  way           reason");
    for (size_t i = 0; i < summary->reasons.count; i++) {
        const struct reason *reason = &summary->reasons.at[i];

        printf("%8" PRIu64 "  %-13s %s: %s\n", reason->count, way_texts[reason->way], reason->name, reason->text);
    }
    if (summary->refusals.count)
        puts("\n   forms  not rewritten");
    for (size_t i = 0; i < summary->refusals.count; i++)
        printf("%8" PRIu64 "  %s: %s\n", summary->refusals.at[i].count, summary->refusals.at[i].name,
               summary->refusals.at[i].text);
}

static void print_text(const struct summary *summary)
{
    const json_t *about = json_object_get(summary->root, "otherData");

    printf("process %" JSON_INTEGER_FORMAT " on %s, coissue %s: %s\n",
           json_integer_value(json_object_get(about, "pid")), text_of(about, "host"), text_of(about, "version"),
           text_of(about, "command line"));
    printf("launches: %" PRIu64 ", held: %" PRIu64 "; other operations held: %" PRIu64 "; flushes: %" PRIu64 "\n",
           summary->all.held + summary->all.launches[HOME], summary->all.held, summary->operations, summary->flushes);
    print_coalescing(summary);
    if (summary->lost)
        printf("events lost: %" PRIu64 ", so all numbers are too small\n", summary->lost);
    printf("\n    held    alone  co-sch.  coalesc  us: p50       p90       p99       max  lane\n");
    for (size_t i = 0; i < summary->lane_count; i++)
        print_group(&summary->lanes[i]);
    print_group(&summary->all);
    print_reasons(summary);
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *group_json(const struct group *group)
{
    json_t *object = json_object();

    if (group->lane >= 0) {
        json_object_set_new(object, "lane", json_integer(group->lane));
        json_object_set_new(object, "name", json_string(group->name));
    }
    json_object_set_new(object, "held", number(group->held));
    for (int way = 0; way < HOME; way++)
        json_object_set_new(object, way_keys[way], number(group->launches[way]));
    json_object_set_new(object, "held_us",
                        json_pack("{s:f, s:f, s:f, s:f}", "p50", percentile(group, 50), "p90", percentile(group, 90),
                                  "p99", percentile(group, 99), "max", percentile(group, 100)));
    return object;
}

static json_t *packs_json(const struct summary *summary)
{
    return json_pack("{s:I, s:I, s:f, s:I}", "count", (json_int_t)summary->packs, "launches",
                     (json_int_t)summary->packed, "mean", mean_width(summary), "largest", (json_int_t)summary->widest);
}

static json_t *rewrites_json(const struct summary *summary)
{
    json_t *refusals = json_array();

    for (size_t i = 0; i < summary->refusals.count; i++) {
        const struct reason *refusal = &summary->refusals.at[i];

        json_array_append_new(refusals, json_pack("{s:s, s:s, s:I}", "refusal", refusal->name, "text", refusal->text,
                                                  "forms", (json_int_t)refusal->count));
    }
    return json_pack("{s:I, s:I, s:o}", "rewritten", (json_int_t)summary->rewritten, "refused",
                     (json_int_t)summary->refused, "refusals", refusals);
}

static void print_json(const struct summary *summary)
{
    static const char *const copied[] = {"version", "pid", "host", "command line"};
    json_t *out = json_object(), *lanes = json_array(), *reasons = json_array();

    for (size_t i = 0; i < array_length(copied); i++)
        json_object_set(out, copied[i], json_object_get(json_object_get(summary->root, "otherData"), copied[i]));
    json_object_set_new(out, "launches", number(summary->all.held + summary->all.launches[HOME]));
    json_object_set_new(out, "not_held", number(summary->all.launches[HOME]));
    json_object_set_new(out, "operations", number(summary->operations));
    json_object_set_new(out, "flushes", number(summary->flushes));
    json_object_set_new(out, "lost_events", number(summary->lost));
    json_object_set_new(out, "all", group_json(&summary->all));
    for (size_t i = 0; i < summary->lane_count; i++)
        json_array_append_new(lanes, group_json(&summary->lanes[i]));
    json_object_set_new(out, "lanes", lanes);
    for (size_t i = 0; i < summary->reasons.count; i++) {
        const struct reason *reason = &summary->reasons.at[i];

        json_array_append_new(reasons,
                              json_pack("{s:s, s:s, s:s, s:I}", "way", way_keys[reason->way], "reason", reason->name,
                                        "text", reason->text, "launches", (json_int_t)reason->count));
    }
    json_object_set_new(out, "reasons", reasons);
    json_object_set_new(out, "packs", packs_json(summary));
    json_object_set_new(out, "rewrites", rewrites_json(summary));
    json_dumpf(out, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(out);
}

int cli_trace(int count, char **arguments)
{
    bool help = false, json = false;
    const struct cli_option table[] = {{"--help", .flag = &help}, {"--json", .flag = &json}, {0}};
    struct summary summary = {0};
    int at = cli_options(table, count, arguments), rest;
    bool fine;

    if (at < 0)
        return STATUS_USAGE;
    if (help) {
        fputs(usage, stdout);
        return cli_finish_output() ? STATUS_FINE : STATUS_USAGE;
    }
    if (at >= count) {
        cli_complain("the file of a trace is missing");
        return STATUS_USAGE;
    }
    summary.file = arguments[at];
    /* Options may stand behind the file as well: nothing here belongs to another program. */
    rest = cli_options(table, count - at, arguments + at);
    if (rest < 0)
        return STATUS_USAGE;
    if (rest < count - at) {
        cli_complain("'%s': one file is expected", arguments[at + rest]);
        return STATUS_USAGE;
    }
    fine = summarise(&summary);
    if (fine && json)
        print_json(&summary);
    else if (fine)
        print_text(&summary);
    finish(&summary);
    return fine && cli_finish_output() ? STATUS_FINE : STATUS_USAGE;
}
