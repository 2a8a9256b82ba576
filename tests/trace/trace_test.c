/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces as a viewer reads them, and the counters and the summary.
 */
#include "trace/trace.h"

#include "base/clock.h"
#include "base/log.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reasons of a scheduler that exists here only: trace/ knows none. */
enum { IDLE, FITS, PACK, CAPTURE, HOLD, REASONS };

static const char *reason_name(unsigned int reason)
{
    static const char *const names[] = {"IDLE", "FITS", "PACK", "CAPTURE", "HOLD"};

    return names[reason];
}

static const char *reason_text(unsigned int reason)
{
    static const char *const texts[] = {"nothing else runs", "it fits", "same \"kernel\"", "its stream is capturing",
                                        "window"};

    return texts[reason];
}

static const char *kind_name(unsigned int reason)
{
    static const char *const kinds[] = {"alone", "coschedule", "coalesce", "home", "hold"};

    return kinds[reason];
}

/* And refusals of a rewriter that exists here only. */
enum { REWRITTEN, NO_CODE, STRANGE, REFUSALS };

static const char *refusal_name(unsigned int refusal)
{
    static const char *const names[] = {"NONE", "NO_CODE", "STRANGE"};

    return names[refusal];
}

static const char *refusal_text(unsigned int refusal)
{
    static const char *const texts[] = {"it is rewritten", "there is no \"code\"", "it is strange"};

    return texts[refusal];
}

static char folder[64], path[256], log_line[2048];
static int log_count;
static uint64_t base_ns;

static void hear(enum log_level level, const char *line)
{
    log_count++;
    snprintf(log_line, sizeof(log_line), "%s", line);
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/coissue-trace-XXXXXX");
    cr_assert(ne(ptr, mkdtemp(folder), NULL));
    snprintf(path, sizeof(path), "%s/deep/er/trace.json", folder);
    log_set_hook(hear);
}

static void remove_folder(void)
{
    char command[256];

    snprintf(command, sizeof(command), "chmod -R u+w %s; rm -r %s", folder, folder);
    cr_assert(eq(int, system(command), 0));
}

TestSuite(trace, .init = make_folder, .fini = remove_folder);

static struct trace_options options_with(const char *file)
{
    return (struct trace_options){
        .path = file,
        .flush_ns = 1000000,
        .version = "1.2.3",
        .device = "Test \"GPU\"",
        .reason_name = reason_name,
        .reason_text = reason_text,
        .kind_name = kind_name,
        .reason_count = REASONS,
        .refusal_name = refusal_name,
        .refusal_text = refusal_text,
        .refusal_count = REFUSALS,
    };
}

static struct trace *create(const char *file)
{
    struct trace_options options = options_with(file);
    struct trace *trace = NULL;

    cr_assert(eq(int, trace_create(&options, &trace), 0));
    base_ns = clock_ns() + 1000; /* whatever the test says happened, happened after the trace began */
    return trace;
}

static void finish(struct trace *trace)
{
    trace_destroy(trace, 5000000000u);
}

static json_t *load(const char *file)
{
    json_error_t error;
    json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &error);

    cr_assert(ne(ptr, root, NULL), "%s:%d: %s", file, error.line, error.text);
    return root;
}

static const char *text_of(json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text ? text : "";
}

static int64_t ns_of(json_t *event, const char *key)
{
    json_t *number = json_object_get(event, key);

    cr_assert(eq(int, !json_is_number(number), 0), "%s is no number", key);
    return (int64_t)(json_number_value(number) * 1000 + 0.5);
}

static bool is_like(json_t *event, const char *phase, const char *category, const char *name)
{
    return !strcmp(text_of(event, "ph"), phase) && (!*category || !strcmp(text_of(event, "cat"), category)) &&
           (!name || !strcmp(text_of(event, "name"), name));
}

/* The `index`-th event with this phase, category ("": any) and name (NULL: any), or NULL. */
static json_t *find(json_t *root, const char *phase, const char *category, const char *name, int index)
{
    json_t *event;
    size_t i;

    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        if (is_like(event, phase, category, name) && !index--)
            return event;
    }
    return NULL;
}

static int count_of(json_t *root, const char *phase, const char *category)
{
    int count = 0;
    json_t *event;
    size_t i;

    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        count += is_like(event, phase, category, NULL);
    }
    return count;
}

static json_t *need(json_t *root, const char *phase, const char *category, const char *name)
{
    json_t *event = find(root, phase, category, name, 0);

    cr_assert(ne(ptr, event, NULL), "no %s of %s %s", phase, category, name ? name : "");
    return event;
}

static json_t *args_of(json_t *event)
{
    return json_object_get(event, "args");
}

static int64_t integer(json_t *object, const char *key)
{
    cr_assert(eq(int, !json_is_integer(json_object_get(object, key)), 0), "%s is no integer", key);
    return json_integer_value(json_object_get(object, key));
}

/* What a name track says, by process and thread. */
static const char *track_name(json_t *root, const char *what, int64_t pid, int64_t tid)
{
    const char *name = NULL;
    json_t *event;

    for (int i = 0; (event = find(root, "M", "", what, i)); i++)
        if (integer(event, "pid") == pid && integer(event, "tid") == tid)
            name = text_of(args_of(event), "name");
    return name;
}

static int64_t lost_of(json_t *root)
{
    return integer(json_object_get(root, "otherData"), "lost events");
}

static struct trace_event event_of(enum trace_kind kind, uint64_t corr, uint64_t ts, uint64_t dur)
{
    return (struct trace_event){
        .kind = (uint16_t)kind,
        .corr = corr,
        .ts_ns = base_ns + ts,
        .dur_ns = dur,
        .name = "vector_add",
        .lane = 3,
        .stream = 0xabc0,
        .grid = {4, 5, 6},
        .block = {32, 2, 1},
        .shared_bytes = 1024,
        .reason = kind == TRACE_HOME ? CAPTURE : FITS,
    };
}

static void put(struct trace *trace, enum trace_kind kind, uint64_t corr, uint64_t ts, uint64_t dur)
{
    struct trace_event event = event_of(kind, corr, ts, dur);

    trace_put(trace, &event);
}

static void put_issue(struct trace *trace, uint64_t corr, uint64_t submit, uint64_t ts, uint64_t dur)
{
    struct trace_event event = event_of(TRACE_ISSUE, corr, ts, dur);

    event.submit_ns = base_ns + submit;
    trace_put(trace, &event);
}

/* One launch of lane `lane` in a pack; they are in a stream that is no lane's own. */
static void put_member(struct trace *trace, uint64_t corr, uint32_t lane, uint32_t pack, uint32_t members, bool first,
                       uint64_t ts)
{
    struct trace_event event = event_of(TRACE_ISSUE, corr, ts, 1000);

    event.submit_ns = base_ns + 100 * corr;
    event.lane = lane;
    event.stream = 0xc000;
    event.reason = PACK;
    event.value[0] = pack;
    event.value[1] = members;
    event.value[2] = first;
    trace_put(trace, &event);
}

static void put_rewrite(struct trace *trace, const char *name, uint32_t refusal, uint32_t members, uint64_t ts)
{
    struct trace_event event = event_of(TRACE_REWRITE, 0, ts, 5000);

    event.name = name;
    event.lane = UINT32_MAX;
    event.value[0] = refusal;
    event.value[1] = 2;
    event.value[2] = members;
    trace_put(trace, &event);
}

static char *own_command(void)
{
    static char command[1024];
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t length = fread(command, 1, sizeof(command) - 1, file);

    fclose(file);
    for (size_t i = 0; i + 1 < length; i++)
        if (!command[i])
            command[i] = ' ';
    return command;
}

static int own_threads(void)
{
    char command[64], line[64] = "";
    FILE *threads;

    snprintf(command, sizeof(command), "ls /proc/%d/task | wc -l", (int)getpid());
    threads = popen(command, "r");
    cr_assert(ne(ptr, fgets(line, sizeof(line), threads), NULL));
    pclose(threads);
    return atoi(line);
}

Test(trace, a_new_file_in_new_folders_is_valid_at_once_and_tells_where_it_comes_from)
{
    struct trace *trace = create(path);
    json_t *root = load(path), *other, *device;
    char host[256];

    cr_assert(trace_is_written(trace));
    cr_assert(eq(int, integer(root, "schemaVersion"), 1));
    cr_assert(eq(str, (char *)text_of(root, "displayTimeUnit"), "ms"));
    cr_assert(gt(i64, integer(root, "baseTimeNanoseconds"), 1700000000000000000));
    device = json_array_get(json_object_get(root, "deviceProperties"), 0);
    cr_assert(eq(str, (char *)text_of(device, "name"), "Test \"GPU\""));
    other = json_object_get(root, "otherData");
    gethostname(host, sizeof(host));
    cr_assert(eq(str, (char *)text_of(other, "version"), "1.2.3"));
    cr_assert(eq(str, (char *)text_of(other, "host"), host));
    cr_assert(eq(int, integer(other, "pid"), getpid()));
    cr_assert(eq(int, integer(other, "lost events"), 0));
    cr_assert(eq(str, (char *)text_of(other, "command line"), own_command()));
    cr_assert(ne(ptr, (char *)track_name(root, "process_name", getpid(), 0), NULL));
    json_decref(root);
    finish(trace);
    root = load(path);
    json_decref(root);
    cr_assert(eq(int, log_count, 0));
}

Test(trace, a_launch_that_was_held_has_call_pair_issue_and_a_flow_between_them)
{
    struct trace *trace = create(path);
    json_t *root, *call, *issue, *begin, *end, *from, *to, *args;
    int64_t tid = syscall(SYS_gettid);

    trace_name_lane(trace, 3, "lane of the test");
    trace_name_stream(trace, 0xabc0, "stream of the test");
    put(trace, TRACE_SUBMIT, 77, 1000, 500);
    put_issue(trace, 77, 1000, 9001, 2500);
    finish(trace);
    root = load(path);

    call = need(root, "X", "cuda_driver", "vector_add");
    cr_assert(eq(i64, integer(call, "pid"), getpid()));
    cr_assert(eq(i64, integer(call, "tid"), tid));
    cr_assert(eq(i64, ns_of(call, "dur"), 500));
    cr_assert(eq(i64, integer(args_of(call), "correlation"), 77));
    cr_assert(eq(i64, json_integer_value(json_array_get(json_object_get(args_of(call), "grid"), 2)), 6));
    cr_assert(eq(i64, json_integer_value(json_array_get(json_object_get(args_of(call), "block"), 0)), 32));

    issue = need(root, "X", "issue", "vector_add");
    args = args_of(issue);
    cr_assert(eq(i64, ns_of(issue, "ts") - ns_of(call, "ts"), 8001));
    cr_assert(eq(i64, ns_of(issue, "dur"), 2500));
    cr_assert(eq(str, (char *)text_of(args, "stream"), "0xabc0"));
    cr_assert(eq(str, (char *)text_of(args, "decision"), "coschedule"));
    cr_assert(eq(str, (char *)text_of(args, "reason"), "FITS"));
    cr_assert(eq(str, (char *)text_of(args, "reason text"), "it fits"));
    cr_assert(eq(i64, ns_of(args, "held_us"), 8001));
    cr_assert(eq(i64, integer(args, "lane"), 3));
    cr_assert(eq(i64, integer(args, "shared memory"), 1024));
    cr_assert(eq(ptr, json_object_get(args, "clamped_us"), NULL));
    cr_assert(eq(str, (char *)track_name(root, "thread_name", integer(issue, "pid"), integer(issue, "tid")),
                 "stream of the test"));
    cr_assert(eq(str, (char *)track_name(root, "process_name", integer(issue, "pid"), 0), "coissue issue streams"));

    begin = need(root, "b", "held", "lane of the test");
    end = need(root, "e", "held", "lane of the test");
    cr_assert(eq(i64, integer(begin, "id"), 77));
    cr_assert(eq(i64, integer(end, "id"), 77));
    cr_assert(eq(i64, ns_of(begin, "ts"), ns_of(call, "ts")));
    cr_assert(eq(i64, ns_of(end, "ts"), ns_of(issue, "ts")));
    cr_assert(eq(str, (char *)text_of(args_of(begin), "kernel"), "vector_add"));
    cr_assert(eq(str, (char *)track_name(root, "process_name", integer(begin, "pid"), 0), "coissue lanes"));
    cr_assert(eq(str, (char *)track_name(root, "thread_name", integer(begin, "pid"), integer(begin, "tid")),
                 "lane of the test"));

    from = need(root, "s", "ac2g", "ac2g");
    to = need(root, "f", "ac2g", "ac2g");
    cr_assert(eq(i64, integer(from, "id"), 77));
    cr_assert(eq(i64, integer(to, "id"), 77));
    cr_assert(eq(str, (char *)text_of(to, "bp"), "e"));
    cr_assert(eq(i64, integer(from, "tid"), tid));
    cr_assert(eq(i64, ns_of(from, "ts"), ns_of(call, "ts")));
    cr_assert(eq(i64, integer(to, "tid"), integer(issue, "tid")));
    cr_assert(eq(i64, ns_of(to, "ts"), ns_of(issue, "ts")));
    json_decref(root);
}

Test(trace, a_launch_that_went_home_has_its_reason_and_no_pair)
{
    struct trace *trace = create(path);
    json_t *root;

    put(trace, TRACE_HOME, 5, 100, 50);
    finish(trace);
    root = load(path);
    cr_assert(eq(str, (char *)text_of(args_of(need(root, "X", "cuda_driver", "vector_add")), "reason"), "CAPTURE"));
    cr_assert(eq(str, (char *)text_of(args_of(need(root, "X", "issue", "vector_add")), "decision"), "home"));
    cr_assert(eq(int, count_of(root, "s", "ac2g"), 1));
    cr_assert(eq(int, count_of(root, "f", "ac2g"), 1));
    cr_assert(eq(int, count_of(root, "b", ""), 0));
    json_decref(root);
}

Test(trace, a_flush_names_the_call_and_its_lane_or_several)
{
    struct trace *trace = create(path);
    struct trace_event event = event_of(TRACE_FLUSH, 0, 10, 20);
    json_t *root;

    event.name = "cuStreamSynchronize";
    trace_put(trace, &event);
    event.name = "cuCtxSynchronize";
    event.lane = UINT32_MAX;
    trace_put(trace, &event);
    finish(trace);
    root = load(path);
    cr_assert(eq(i64, integer(args_of(need(root, "X", "cuda_driver", "cuStreamSynchronize")), "lane"), 3));
    cr_assert(eq(str, (char *)text_of(args_of(need(root, "X", "cuda_driver", "cuCtxSynchronize")), "lane"), "several"));
    cr_assert(eq(int, count_of(root, "s", ""), 0));
    json_decref(root);
}

Test(trace, progress_is_a_slice_from_the_first_issue_or_the_last_progress)
{
    struct trace *trace = create(path);
    json_t *root, *first, *second, *third;

    put_issue(trace, 1, 0, 1000, 100);
    put_issue(trace, 2, 0, 2000, 100);
    put_issue(trace, 3, 0, 3000, 100);
    put(trace, TRACE_COMPLETE, 2, 10000, 0);
    put(trace, TRACE_COMPLETE, 3, 12000, 0);
    put(trace, TRACE_COMPLETE, 3, 13000, 0); /* nothing new */
    put_issue(trace, 4, 0, 20000, 100);
    put(trace, TRACE_COMPLETE, 4, 25000, 0);
    finish(trace);
    root = load(path);
    cr_assert(eq(int, count_of(root, "X", "device"), 3));
    first = find(root, "X", "device", NULL, 0);
    second = find(root, "X", "device", NULL, 1);
    third = find(root, "X", "device", NULL, 2);
    cr_assert(eq(str, (char *)text_of(first, "name"), "2 launches"));
    cr_assert(eq(i64, ns_of(first, "ts"), ns_of(need(root, "X", "issue", "vector_add"), "ts")));
    cr_assert(eq(i64, ns_of(first, "dur"), 9000));
    cr_assert(eq(str, (char *)text_of(second, "name"), "1 launch"));
    cr_assert(eq(i64, ns_of(second, "ts") - ns_of(first, "ts"), 9000));
    cr_assert(eq(i64, ns_of(second, "dur"), 2000));
    cr_assert(eq(str, (char *)text_of(third, "name"), "1 launch"));
    cr_assert(eq(i64, ns_of(third, "ts") - ns_of(first, "ts"), 19000));
    cr_assert(eq(i64, ns_of(third, "dur"), 5000));
    cr_assert(ne(i64, integer(first, "tid"), integer(need(root, "X", "issue", NULL), "tid")));
    json_decref(root);
}

Test(trace, the_load_becomes_three_counters)
{
    struct trace *trace = create(path);
    struct trace_event event = event_of(TRACE_LOAD, 0, 10, 0);
    json_t *root;

    event.value[0] = 12;
    event.value[1] = 4;
    event.value[2] = 1500;
    trace_put(trace, &event);
    event.device = 1;
    trace_put(trace, &event);
    finish(trace);
    root = load(path);
    cr_assert(eq(i64, integer(args_of(need(root, "C", "", "held launches")), "value"), 12));
    cr_assert(eq(i64, integer(args_of(need(root, "C", "", "in flight")), "value"), 4));
    cr_assert(eq(i64, ns_of(args_of(need(root, "C", "", "SM demand")), "value"), 1500));
    need(root, "C", "", "held launches, device 1");
    json_decref(root);
}

/* Issue slices of one stream that overlap in every way, put in an order that is not that of time. */
Test(trace, slices_of_one_stream_never_overlap_and_say_when_they_were_moved)
{
    struct trace *trace = create(path);
    json_t *root, *event;
    int64_t end = -1;
    int moved = 0;

    put_issue(trace, 1, 0, 5000, 1000);
    put_issue(trace, 2, 0, 1000, 2000);
    put_issue(trace, 3, 0, 2000, 3500); /* overlaps both */
    put_issue(trace, 4, 0, 1500, 100);  /* within 2 */
    put(trace, TRACE_HOME, 5, 2000, 100);
    usleep(50000);                    /* another flush */
    put_issue(trace, 6, 0, 900, 300); /* late */
    finish(trace);
    root = load(path);
    for (int i = 0; (event = find(root, "X", "issue", NULL, i)); i++) {
        cr_assert(ge(i64, ns_of(event, "ts"), end), "slice %d", i);
        end = ns_of(event, "ts") + ns_of(event, "dur");
        moved += json_object_get(args_of(event), "clamped_us") != NULL;
    }
    cr_assert(eq(int, count_of(root, "X", "issue"), 6));
    cr_assert(eq(int, moved, 5));
    cr_assert(eq(int, count_of(root, "b", "held"), 5));
    cr_assert(eq(int, count_of(root, "e", "held"), 5));
    json_decref(root);
}

Test(trace, a_pack_is_one_slice_and_the_flow_of_each_member_leads_there)
{
    struct trace *trace = create(path);
    json_t *root, *slice, *pair, *flow;

    for (uint32_t i = 0; i < 3; i++)
        put_member(trace, i + 1, 10 + i, 7, 3, i == 0, 5000);
    finish(trace);
    root = load(path);

    cr_assert(eq(int, count_of(root, "X", "issue"), 1));
    slice = need(root, "X", "issue", "vector_add");
    cr_assert(eq(i64, integer(args_of(slice), "pack"), 7));
    cr_assert(eq(i64, integer(args_of(slice), "members"), 3));
    cr_assert(eq(i64, ns_of(slice, "dur"), 1000));
    cr_assert(eq(str, (char *)text_of(args_of(slice), "decision"), "coalesce"));
    cr_assert(eq(str, (char *)text_of(args_of(slice), "stream"), "0xc000"));
    cr_assert(eq(ptr, json_object_get(args_of(slice), "clamped_us"), NULL));
    cr_assert(eq(ptr, json_object_get(args_of(slice), "lane"), NULL));
    for (int i = 0; i < 3; i++) {
        flow = find(root, "f", "ac2g", NULL, i);
        cr_assert(eq(i64, integer(flow, "id"), i + 1));
        cr_assert(eq(i64, integer(flow, "pid"), integer(slice, "pid")));
        cr_assert(eq(i64, integer(flow, "tid"), integer(slice, "tid")));
        cr_assert(eq(i64, ns_of(flow, "ts"), ns_of(slice, "ts")));
        pair = find(root, "e", "held", NULL, i);
        cr_assert(eq(i64, integer(args_of(pair), "correlation"), i + 1));
        cr_assert(eq(i64, integer(args_of(pair), "lane"), 10 + i));
        cr_assert(eq(i64, integer(args_of(pair), "pack"), 7));
        cr_assert(eq(i64, integer(args_of(pair), "members"), 3));
        cr_assert(eq(i64, ns_of(args_of(pair), "held_us"), 5000 - 100 * (i + 1)));
        cr_assert(eq(str, (char *)text_of(args_of(pair), "reason"), "PACK"));
    }
    json_decref(root);
}

/* Packs and a single launch in one stream; another event of the same time stands between members of the second pack. */
Test(trace, packs_of_one_stream_are_slices_of_their_own_that_do_not_overlap)
{
    struct trace *trace = create(path);
    json_t *root, *event;
    int64_t end = -1;
    int64_t packs[] = {7, 0, 8, 9};

    put_member(trace, 1, 1, 7, 2, true, 1000);
    put_member(trace, 2, 2, 7, 2, false, 1000);
    put_member(trace, 3, 1, 0, 0, false, 3000);
    put_member(trace, 4, 1, 8, 3, true, 5000);
    put_member(trace, 5, 2, 8, 3, false, 5000);
    put(trace, TRACE_LOAD, 0, 5000, 1000);
    put_member(trace, 6, 3, 8, 3, false, 5000);
    put_member(trace, 7, 1, 9, 1, true, 6000);
    finish(trace);
    root = load(path);
    cr_assert(eq(int, count_of(root, "X", "issue"), 4));
    cr_assert(eq(int, count_of(root, "f", "ac2g"), 7));
    for (int i = 0; (event = find(root, "X", "issue", NULL, i)); i++) {
        cr_assert(ge(i64, ns_of(event, "ts"), end), "slice %d", i);
        cr_assert(eq(i64, json_integer_value(json_object_get(args_of(event), "pack")), packs[i]), "slice %d", i);
        cr_assert(eq(ptr, json_object_get(args_of(event), "clamped_us"), NULL), "slice %d", i);
        end = ns_of(event, "ts") + ns_of(event, "dur");
    }
    json_decref(root);
}

/* Completion is told by lane, with the lane's own stream. What went in a pack is seen in the pack's. */
Test(trace, what_completes_of_a_pack_is_one_slice_in_the_stream_of_the_pack)
{
    struct trace *trace = create(path);
    json_t *root, *pack, *device;

    put_issue(trace, 1, 0, 500, 100); /* lane 3, at home */
    for (uint32_t lane = 1; lane <= 3; lane++)
        put_member(trace, lane + 1, lane, 7, 3, lane == 1, 1000);
    for (uint32_t lane = 1; lane <= 3; lane++) {
        struct trace_event event = event_of(TRACE_COMPLETE, lane == 3 ? 2 : 1, 9000, 0);

        event.lane = lane;
        event.stream = 0xabc0;
        trace_put(trace, &event);
    }
    finish(trace);
    root = load(path);
    pack = find(root, "X", "issue", NULL, 1);
    cr_assert(eq(i64, integer(args_of(pack), "pack"), 7));
    cr_assert(eq(int, count_of(root, "X", "device"), 2)); /* lane 3 at home, and the pack */
    cr_assert(eq(i64, ns_of(need(root, "X", "device", "1 launch"), "dur"), 8500));
    device = need(root, "X", "device", "3 launches");
    cr_assert(eq(i64, ns_of(device, "ts"), ns_of(pack, "ts")));
    cr_assert(eq(i64, ns_of(device, "dur"), 8000));
    cr_assert(eq(i64, integer(device, "tid"), integer(pack, "tid") + 1));
    cr_assert(eq(str, (char *)text_of(args_of(device), "lane"), "several"));
    cr_assert(eq(str, (char *)text_of(args_of(device), "stream"), "0xc000"));
    json_decref(root);
}

Test(trace, a_lane_that_goes_to_and_fro_between_streams_is_followed)
{
    struct trace *trace = create(path);
    json_t *root;

    for (uint32_t i = 0; i < 20; i += 2) { /* more changes than are remembered, and nothing is seen to complete */
        put_issue(trace, i + 1, 0, 1000 * i, 100);
        put_member(trace, i + 2, 3, i + 1, 2, true, 1000 * i + 500);
    }
    put(trace, TRACE_COMPLETE, 20, 30000, 0);
    put_issue(trace, 21, 0, 40000, 100);
    put(trace, TRACE_COMPLETE, 21, 45000, 0);
    finish(trace);
    root = load(path);
    /* Both streams were idle in between, so the last slice begins with the last issue. */
    cr_assert(eq(int, count_of(root, "X", "device"), 3));
    cr_assert(eq(i64, ns_of(find(root, "X", "device", NULL, 2), "dur"), 5000));
    json_decref(root);
}

Test(trace, rewriting_has_a_track_of_its_own_that_says_what_came_of_it)
{
    struct trace *trace = create(path);
    json_t *root, *made, *refused, *unknown, *overlapping;

    put_rewrite(trace, "made", REWRITTEN, 16, 1000);
    put_rewrite(trace, "refused", STRANGE, 0, 7000);
    put_rewrite(trace, "unknown", 40, 0, 20000);
    put_rewrite(trace, "overlapping", NO_CODE, 0, 22000);
    finish(trace);
    root = load(path);
    made = need(root, "X", "rewrite", "made");
    refused = need(root, "X", "rewrite", "refused");
    unknown = need(root, "X", "rewrite", "unknown");
    overlapping = need(root, "X", "rewrite", "overlapping");
    cr_assert(eq(i64, ns_of(made, "dur"), 5000));
    cr_assert(eq(str, (char *)text_of(args_of(made), "result"), "NONE"));
    cr_assert(eq(ptr, json_object_get(args_of(made), "rewritten"), json_true()));
    cr_assert(eq(i64, integer(args_of(made), "form"), 2));
    cr_assert(eq(i64, integer(args_of(made), "members"), 16));
    cr_assert(eq(str, (char *)text_of(args_of(refused), "result"), "STRANGE"));
    cr_assert(eq(str, (char *)text_of(args_of(refused), "result text"), "it is strange"));
    cr_assert(eq(ptr, json_object_get(args_of(refused), "rewritten"), json_false()));
    cr_assert(eq(i64, integer(args_of(unknown), "result"), 40));
    cr_assert(eq(i64, ns_of(overlapping, "ts") - ns_of(unknown, "ts"), 5000));
    cr_assert(eq(i64, ns_of(overlapping, "dur"), 2000));
    cr_assert(eq(str, (char *)track_name(root, "thread_name", integer(made, "pid"), integer(made, "tid")),
                 "kernel rewriting"));
    cr_assert(eq(int, count_of(root, "X", "issue"), 0));
    json_decref(root);
}

Test(trace, packs_and_rewrites_are_counted)
{
    static const uint32_t widths[] = {2, 3, 4, 5, 16, 17, 128, 1000, 1};
    static const uint64_t rows[TRACE_WIDTHS] = {2, 2, 1, 1, 1, 0, 2};
    struct trace *trace = create(path);
    struct trace_totals totals;
    json_t *root, *written;
    uint64_t launches = 0;

    for (uint32_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        for (uint32_t member = 0; member < widths[i]; member++)
            put_member(trace, ++launches, member, i + 1, widths[i], member == 1 || widths[i] == 1, 1000 * i);
    put_rewrite(trace, "a", REWRITTEN, 16, 1);
    put_rewrite(trace, "a", REWRITTEN, 128, 2);
    put_rewrite(trace, "b", STRANGE, 0, 3);
    put_rewrite(trace, "c", 1000, 0, 4); /* out of every range: as if it were not there */
    finish(trace);
    trace_totals(trace, &totals);
    cr_assert(eq(u64, totals.packs, 9));
    cr_assert(eq(u64, totals.packed, launches));
    cr_assert(eq(u64, totals.issued, launches));
    cr_assert(eq(u64, totals.widest, 1000));
    for (int i = 0; i < TRACE_WIDTHS; i++)
        cr_assert(eq(u64, totals.by_width[i], rows[i]), "row %d", i);
    cr_assert(eq(u64, totals.rewritten, 2));
    cr_assert(eq(u64, totals.refused, 1));
    cr_assert(eq(u64, totals.by_refusal[STRANGE], 1));

    root = load(path);
    written = json_object_get(json_object_get(root, "otherData"), "totals");
    cr_assert(eq(i64, integer(written, "packs"), 9));
    cr_assert(eq(i64, integer(written, "widest"), 1000));
    cr_assert(eq(i64, integer(written, "rewritten"), 2));
    cr_assert(eq(i64, integer(written, "refused"), 1));
    cr_assert(eq(i64, integer(json_object_get(written, "pack widths"), "128"), 2));
    cr_assert(eq(i64, integer(json_object_get(written, "refusals"), "STRANGE"), 1));
    cr_assert(eq(sz, json_object_size(json_object_get(written, "refusals")), 1));
    json_decref(root);
}

Test(trace, names_from_hostile_images_are_escaped_and_cut)
{
    static char long_name[100000];
    static const char *const names[] = {
        "\"}]}",   "\\",        "a\nb\tc\x01", "\xff\xfe\xc0\x80", "\xed\xa0\x80",
        "",        "</script>", "%s%n%p",      "\xe2\x82\xac\xf0", NULL,
        long_name,
    };
    struct trace *trace = create(path);
    json_t *root, *event;
    size_t count = sizeof(names) / sizeof(names[0]);

    memset(long_name, '"', sizeof(long_name) - 1);
    trace_name_lane(trace, 3, long_name);
    trace_name_stream(trace, 0xabc0, "\xff\"\n");
    for (size_t i = 0; i < count; i++) {
        struct trace_event issue = event_of(TRACE_ISSUE, i + 1, 1000 * i, 10);

        issue.submit_ns = issue.ts_ns;
        issue.name = names[i];
        trace_put(trace, &issue);
        issue.kind = TRACE_HOME;
        trace_put(trace, &issue);
        issue.kind = TRACE_ISSUE;
        issue.value[0] = (uint32_t)i + 1;
        trace_put(trace, &issue);
        issue.kind = TRACE_REWRITE;
        trace_put(trace, &issue);
    }
    finish(trace);
    root = load(path);
    cr_assert(eq(int, count_of(root, "X", "cuda_driver"), (int)count));
    cr_assert(eq(int, count_of(root, "X", "rewrite"), (int)count));
    event = find(root, "X", "cuda_driver", NULL, 0);
    cr_assert(eq(str, (char *)text_of(event, "name"), "\"}]}"));
    event = find(root, "X", "cuda_driver", NULL, 2);
    cr_assert(eq(str, (char *)text_of(event, "name"), "a\nb\tc\x01"));
    event = find(root, "X", "cuda_driver", NULL, 10);
    cr_assert(eq(sz, strlen(text_of(event, "name")), 512 + 3));
    json_decref(root);
}

Test(trace, the_null_streams_of_several_contexts_are_different_tracks)
{
    struct trace *trace = create(path);
    json_t *root;

    trace_name_stream(trace, 0, "null");
    for (uint32_t lane = 1; lane <= 2; lane++) {
        struct trace_event event = event_of(TRACE_HOME, lane, 1000 * lane, 10);

        event.stream = 0;
        event.lane = lane;
        trace_put(trace, &event);
    }
    finish(trace);
    root = load(path);
    cr_assert(
        ne(i64, integer(find(root, "X", "issue", NULL, 0), "tid"), integer(find(root, "X", "issue", NULL, 1), "tid")));
    json_decref(root);
}

Test(trace, more_streams_and_lanes_than_tables_hold_still_make_a_valid_file)
{
    struct trace *trace = create(path);
    json_t *root;

    for (uint32_t i = 0; i < 1500; i++) {
        struct trace_event event = event_of(TRACE_ISSUE, i + 1, 1000 * i, 10);

        event.submit_ns = event.ts_ns;
        event.stream = 0x10000 + i * 64;
        event.lane = i;
        trace_name_lane(trace, i, "one of many");
        trace_name_stream(trace, event.stream, "one of many");
        trace_put(trace, &event);
    }
    finish(trace);
    root = load(path);
    cr_assert(eq(int, count_of(root, "X", "issue"), 1500));
    cr_assert(eq(int, lost_of(root), 0));
    json_decref(root);
}

/* The trace so far, once at least `events` have arrived in it. For traces to which nothing is added meanwhile. */
static json_t *load_when(const char *file, int64_t events)
{
    uint64_t begin = clock_ns();

    while (clock_ns() - begin < 10000000000u) {
        json_t *root = json_load_file(file, 0, NULL);

        if (root && integer(json_object_get(root, "otherData"), "events") >= events)
            return root;
        json_decref(root);
        usleep(1000);
    }
    cr_fatal("%ld events never arrived", (long)events);
    return NULL;
}

Test(trace, the_file_is_valid_after_every_flush)
{
    struct trace *trace = create(path);

    for (int i = 1; i <= 30; i++) {
        json_t *root;

        put(trace, TRACE_SUBMIT, (uint64_t)i, 1000 * (uint64_t)i, 10);
        root = load_when(path, i);
        cr_assert(eq(int, count_of(root, "X", "cuda_driver"), i));
        json_decref(root);
    }
    finish(trace);
}

/* A child that goes on for ever must not outlive a test that failed. */
static struct trace *child_trace(const char *file)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return create(file);
}

Test(trace, a_process_that_is_killed_leaves_a_valid_file_with_what_was_flushed)
{
    pid_t child = fork();
    int status;
    json_t *root;

    if (!child) {
        struct trace *trace = child_trace(path);

        for (int i = 1; i <= 1000; i++)
            put(trace, TRACE_SUBMIT, (uint64_t)i, 1000 * (uint64_t)i, 10);
        pause();
    }
    root = load_when(path, 1000);
    json_decref(root);
    kill(child, SIGKILL);
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    root = load(path);
    cr_assert(eq(int, count_of(root, "X", "cuda_driver"), 1000));
    json_decref(root);
}

/* A kill in the middle of a write may cut an event in two, and nothing before it. */
static json_t *load_cut(const char *file)
{
    json_t *root = json_load_file(file, 0, NULL);
    static char text[16 << 20];
    FILE *stream = fopen(file, "r");
    char *line;

    text[fread(text, 1, sizeof(text) - 4, stream)] = '\0';
    fclose(stream);
    if (root)
        return root;
    line = strrchr(text, '\n');
    cr_assert(ne(ptr, line, NULL));
    while (line > text && (line[-1] == ',' || line[-1] == '\n'))
        line--;
    strcpy(line, "]}");
    return json_loads(text, 0, NULL);
}

/* Waits until a file that grows has that many slices, and says how many it has. A reader cannot keep up with a parser.
 */
static int slices_when(const char *file, int slices)
{
    static char text[1 << 20];
    int fd = -1, found = 0;

    for (int tries = 0; tries < 10000 && found < slices; tries++) {
        ssize_t length;

        usleep(500);
        if (fd < 0)
            fd = open(file, O_RDONLY);
        length = pread(fd, text, sizeof(text) - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        found = 0;
        for (const char *c = text; (c = strstr(c, "\n{\"ph\":\"X\"")); c++)
            found++;
    }
    close(fd);
    cr_assert(ge(int, found, slices));
    return found;
}

Test(trace, a_process_that_is_killed_at_any_moment_loses_nothing_that_was_flushed_before)
{
    for (int round = 0; round < 10; round++) {
        char file[300];
        pid_t child;
        json_t *root;
        int before, status;

        snprintf(file, sizeof(file), "%s/%d.json", folder, round);
        child = fork();
        if (!child) {
            struct trace *trace = child_trace(file);

            for (uint64_t i = 1;; i++) {
                put(trace, TRACE_SUBMIT, i, 1000 * i, 10);
                if (i % 16 == 0)
                    usleep(50);
            }
        }
        before = slices_when(file, 100);
        usleep((useconds_t)(777 * round));
        kill(child, SIGKILL);
        cr_assert(eq(int, waitpid(child, &status, 0), child));
        root = load_cut(file);
        cr_assert(ne(ptr, root, NULL), "round %d", round);
        cr_assert(ge(int, count_of(root, "X", ""), before));
        json_decref(root);
    }
}

Test(trace, a_full_ring_loses_events_and_the_file_says_how_many)
{
    struct trace_options options = options_with(path);
    struct trace_totals totals;
    struct trace *trace;
    json_t *root;

    options.ring_events = 16;
    options.flush_ns = 1000000000;
    cr_assert(eq(int, trace_create(&options, &trace), 0));
    base_ns = clock_ns();
    for (uint64_t i = 1; i <= 100000; i++)
        put(trace, TRACE_SUBMIT, i, i, 1);
    finish(trace);
    trace_totals(trace, &totals);
    root = load(path);
    cr_assert(eq(u64, totals.seen, 100000));
    cr_assert(gt(u64, totals.lost, 0));
    cr_assert(eq(i64, lost_of(root), (int64_t)totals.lost));
    cr_assert(eq(i64, count_of(root, "X", "cuda_driver") + lost_of(root), 100000));
    json_decref(root);
}

static void *put_one(void *trace)
{
    put(trace, TRACE_SUBMIT, 1, 1, 1);
    return NULL;
}

static void in_thread(struct trace *trace)
{
    pthread_t thread;

    cr_assert(eq(int, pthread_create(&thread, NULL, put_one, trace), 0));
    pthread_join(thread, NULL);
}

Test(trace, rings_of_threads_that_ended_are_used_again)
{
    struct trace_options options = options_with(path);
    struct trace_totals totals;
    struct trace *trace;
    json_t *root;

    options.rings = 2;
    cr_assert(eq(int, trace_create(&options, &trace), 0));
    base_ns = clock_ns();
    put_one(trace);
    for (int i = 0; i < 50; i++)
        in_thread(trace);
    finish(trace);
    trace_totals(trace, &totals);
    root = load(path);
    cr_assert(eq(u64, totals.seen, 51));
    cr_assert(eq(u64, totals.lost, 0));
    cr_assert(eq(int, count_of(root, "X", "cuda_driver"), 51));
    json_decref(root);
}

Test(trace, threads_without_a_ring_are_counted_and_their_events_are_lost)
{
    struct trace_options options = options_with(path);
    struct trace_totals totals;
    struct trace *trace;

    options.rings = 1;
    cr_assert(eq(int, trace_create(&options, &trace), 0));
    base_ns = clock_ns();
    put_one(trace); /* the main thread keeps the ring */
    for (int i = 0; i < 5; i++)
        in_thread(trace);
    finish(trace);
    trace_totals(trace, &totals);
    cr_assert(eq(u64, totals.seen, 6));
    cr_assert(eq(u64, totals.held, 6));
    cr_assert(eq(u64, totals.lost, 5));
}

Test(trace, without_a_path_events_are_counted_and_no_thread_or_file_appears)
{
    int threads = own_threads();
    struct trace *trace = create("");
    struct trace_totals totals;

    put(trace, TRACE_SUBMIT, 1, 1, 1);
    put(trace, TRACE_SUBMIT, 2, 1, 1);
    put_issue(trace, 1, 1000, 3000, 10);
    put_issue(trace, 2, 1000, 7000, 10);
    put(trace, TRACE_HOME, 3, 1, 1);
    put(trace, TRACE_FLUSH, 0, 1, 1);
    put(trace, TRACE_OP, 4, 1, 1);
    put(trace, TRACE_COMPLETE, 2, 1, 1);
    for (int i = 0; i < 10000; i++)
        put(trace, TRACE_LOAD, 0, 1, 1);
    trace_name_lane(trace, 1, "x");
    trace_totals(trace, &totals);
    cr_assert(eq(u64, totals.seen, 3));
    cr_assert(eq(u64, totals.held, 2));
    cr_assert(eq(u64, totals.issued, 2));
    cr_assert(eq(u64, totals.coscheduled, 2));
    cr_assert(eq(u64, totals.alone, 0));
    cr_assert(eq(u64, totals.ops, 1));
    cr_assert(eq(u64, totals.flushes, 1));
    cr_assert(eq(u64, totals.lost, 0));
    cr_assert(eq(u64, totals.hold_ns_total, 8000));
    cr_assert(eq(u64, totals.hold_ns_max, 6000));
    cr_assert(eq(u64, totals.by_reason[CAPTURE], 1));
    cr_assert(eq(u64, totals.by_reason[FITS], 2));
    cr_assert(eq(int, own_threads(), threads));
    finish(trace);
}

Test(trace, nothing_can_be_given_to_every_function_that_takes_a_trace)
{
    struct trace_event event = {0};

    trace_put(NULL, &event);
    cr_assert(not(trace_is_written(NULL)));
    trace_name_lane(NULL, 1, "x");
    trace_name_stream(NULL, 1, "x");
    trace_abandon(NULL);
    trace_destroy(NULL, 0);
}

Test(trace, options_out_of_range_are_refused)
{
    struct trace_options options = options_with(path);
    struct trace *trace = (struct trace *)&options;

    options.ring_events = 100;
    cr_assert(eq(int, trace_create(&options, &trace), -EINVAL));
    options.ring_events = 1 << 21;
    cr_assert(eq(int, trace_create(&options, &trace), -EINVAL));
    options.ring_events = 0;
    options.rings = 100000;
    cr_assert(eq(int, trace_create(&options, &trace), -EINVAL));
    options.rings = 0;
    options.reason_count = TRACE_REASONS_MAX + 1;
    cr_assert(eq(int, trace_create(&options, &trace), -EINVAL));
    options.reason_count = 0;
    options.refusal_count = TRACE_REFUSALS_MAX + 1;
    cr_assert(eq(int, trace_create(&options, &trace), -EINVAL));
    cr_assert(eq(ptr, trace, (struct trace *)&options));
}

/* Counting goes on, and one line names the file and the cause. */
static void expect_counting_only(const char *file, const char *named, const char *cause)
{
    struct trace_totals totals;
    struct trace *trace;

    log_count = 0;
    trace = create(file);
    cr_assert(not(trace_is_written(trace)));
    put(trace, TRACE_SUBMIT, 1, 1, 1);
    trace_totals(trace, &totals);
    cr_assert(eq(u64, totals.seen, 1));
    cr_assert(eq(u64, totals.lost, 0));
    cr_assert(eq(int, log_count, 1));
    cr_assert(ne(ptr, strstr(log_line, named), NULL), "%s", log_line);
    cr_assert(ne(ptr, strstr(log_line, cause), NULL), "%s", log_line);
    finish(trace);
}

Test(trace, a_file_that_cannot_be_written_is_one_line_with_name_and_cause)
{
    char fifo[300];

    expect_counting_only("/proc/nowhere/trace.json", "/proc/nowhere/trace.json", "No such file or directory");
    expect_counting_only("/tmp", "/tmp", "Is a directory");
    expect_counting_only("/dev/null/trace.json", "/dev/null/trace.json", "Not a directory");
    expect_counting_only("/dev/null", "/dev/null", "not a regular file");
    expect_counting_only("/tmp/%z.json", "/tmp/%z.json", "Invalid argument");
    snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
    cr_assert(eq(int, mkfifo(fifo, 0600), 0));
    expect_counting_only(fifo, fifo, "No such device or address");
}

Test(trace, process_and_host_are_expanded_in_the_path)
{
    char template_path[300], expected[600], host[256];
    json_t *root;

    gethostname(host, sizeof(host));
    snprintf(template_path, sizeof(template_path), "%s/%%h/%%p%%%%.json", folder);
    snprintf(expected, sizeof(expected), "%s/%s/%d%%.json", folder, host, (int)getpid());
    finish(create(template_path));
    root = load(expected);
    json_decref(root);
}

Test(trace, a_file_that_exists_is_replaced)
{
    struct trace *trace = create(path);
    json_t *root;

    for (uint64_t i = 1; i < 100; i++)
        put(trace, TRACE_SUBMIT, i, i, 1);
    finish(trace);
    finish(create(path));
    root = load(path);
    cr_assert(eq(int, count_of(root, "X", ""), 0));
    json_decref(root);
}

Test(trace, a_file_that_is_being_written_is_left_alone)
{
    struct trace *first = create(path), *second;
    char other[300];
    json_t *root;

    put(first, TRACE_SUBMIT, 1, 1, 1);
    second = create(path);
    cr_assert(eq(int, log_count, 1));
    put(second, TRACE_FLUSH, 0, 1, 1);
    finish(second);
    finish(first);
    snprintf(other, sizeof(other), "%s.%d", path, (int)getpid());
    cr_assert(ne(ptr, strstr(log_line, other), NULL), "%s", log_line);
    root = load(path);
    cr_assert(eq(int, count_of(root, "X", ""), 1));
    json_decref(root);
    root = load(other);
    cr_assert(eq(int, count_of(root, "X", ""), 1));
    json_decref(root);
}

Test(trace, a_full_disk_ends_the_trace_with_one_line_and_a_valid_file)
{
    struct rlimit limit;
    struct trace_totals totals;
    struct trace *trace;
    json_t *root;
    int64_t written;

    cr_assert(eq(int, getrlimit(RLIMIT_FSIZE, &limit), 0));
    limit.rlim_cur = 40000;
    cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &limit), 0)); /* SIGXFSZ would kill: the writer must not take it */
    trace = create(path);
    for (uint64_t i = 1; i <= 5000; i++) {
        put(trace, TRACE_SUBMIT, i, i, 1);
        if (i % 50 == 0)
            usleep(2000);
    }
    finish(trace);
    root = load(path);
    trace_totals(trace, &totals);
    written = integer(json_object_get(root, "otherData"), "events");
    cr_assert(gt(i64, written, 0));
    cr_assert(eq(int, count_of(root, "X", ""), written));
    cr_assert(eq(i64, written + (int64_t)totals.lost, 5000));
    cr_assert(eq(int, log_count, 1));
    cr_assert(ne(ptr, strstr(log_line, path), NULL), "%s", log_line);
    cr_assert(ne(ptr, strstr(log_line, "File too large"), NULL), "%s", log_line);
    json_decref(root);
}

/* In a child, because the test runner needs its descriptors. Returns what is wrong. */
static const char *close_all_and_open_own(const char *own)
{
    struct trace *trace = create(path);
    struct stat found;

    close_range(3, ~0u, 0);
    for (int i = 0; i < 20; i++)
        if (open(own, O_CREAT | O_RDWR, 0600) < 0)
            return "cannot open a file";
    for (uint64_t i = 1; i <= 100; i++)
        put(trace, TRACE_SUBMIT, i, i, 1);
    finish(trace);
    if (stat(own, &found) || found.st_size)
        return "the file of the program was written";
    for (int i = 3; i < 20; i++)
        if (fcntl(i, F_GETFD))
            return "a descriptor of the program was closed";
    if (log_count != 1 || !strstr(log_line, path))
        return "not one line in the log, with the name of the trace";
    return NULL;
}

Test(trace, a_program_that_closes_all_descriptors_finds_no_json_in_its_own_files)
{
    char own[300];
    pid_t child;
    int status;

    snprintf(own, sizeof(own), "%s/own", folder);
    child = fork();
    if (!child) {
        const char *wrong = close_all_and_open_own(own);

        if (wrong)
            fprintf(stderr, "%s\n", wrong);
        _exit(wrong != NULL);
    }
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_assert(eq(int, status, 0));
    json_decref(load(path));
}

Test(trace, the_child_of_a_fork_makes_a_trace_of_its_own_and_leaves_the_other_alone)
{
    struct trace *trace;
    char template_path[300], child_path[400];
    json_t *root;
    pid_t child;
    int status;

    snprintf(template_path, sizeof(template_path), "%s/%%p.json", folder);
    trace = create(template_path);
    snprintf(path, sizeof(path), "%s/%d.json", folder, (int)getpid());
    for (uint64_t i = 1; i <= 10; i++)
        put(trace, TRACE_SUBMIT, i, i, 1);
    child = fork();
    if (!child) {
        struct trace *own;

        trace_abandon(trace);
        put(trace, TRACE_SUBMIT, 1, 1, 1); /* goes nowhere */
        trace_destroy(trace, UINT64_MAX);  /* returns */
        own = create(template_path);
        put(own, TRACE_SUBMIT, 1, 1, 1);
        finish(own);
        _exit(0);
    }
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_assert(eq(int, status, 0));
    put(trace, TRACE_SUBMIT, 11, 11, 1);
    finish(trace);
    root = load(path);
    cr_assert(eq(int, count_of(root, "X", ""), 11));
    json_decref(root);
    snprintf(child_path, sizeof(child_path), "%s/%d.json", folder, (int)child);
    root = load(child_path);
    cr_assert(eq(int, count_of(root, "X", ""), 1));
    json_decref(root);
}

Test(trace, destroying_waits_no_longer_than_it_was_told)
{
    struct trace *trace = create(path);
    uint64_t begin = clock_ns();

    trace_destroy(trace, 0);
    cr_assert(lt(u64, clock_ns() - begin, 1000000000));
    put(trace, TRACE_SUBMIT, 1, 1, 1); /* a thread that does not know yet */
    trace_destroy(trace, 1000);        /* twice is fine */
    usleep(100000);
    json_decref(load(path));
}

static const char expected_summary[] =
    "           1,004  100.0 %  kernel launches\n"
    "           1,003   99.9 %    held in the queue, and then issued\n"
    "               1    0.1 %      alone, because\n"
    "               1    0.1 %        nothing else runs\n"
    "           1,000   99.6 %      co-scheduled beside other work, because\n"
    "           1,000   99.6 %        it fits\n"
    "               1    0.1 %      coalesced with launches of other tenants, because\n"
    "               1    0.1 %        same \"kernel\"\n"
    "               1    0.1 %      still held\n"
    "               1    0.1 %    not held, because\n"
    "               1    0.1 %      its stream is capturing\n"
    "           5.000 us        mean time held\n"
    "           5.000 us        longest time held\n"
    "               1           held operations other than launches\n"
    "               2           calls that flushed held launches\n";

Test(trace, the_summary_adds_up_in_plain_words)
{
    struct trace *trace = create(NULL);
    char summary[4096], part[64], first[100];
    size_t length;

    for (uint64_t i = 1; i <= 1002; i++) {
        struct trace_event event = event_of(TRACE_ISSUE, i, 6000, 1);

        put(trace, TRACE_SUBMIT, i, 1000, 1);
        event.submit_ns = base_ns + 1000;
        event.reason = i == 1 ? IDLE : i == 2 ? PACK : FITS;
        trace_put(trace, &event);
    }
    put(trace, TRACE_SUBMIT, 1003, 1000, 1);
    put(trace, TRACE_HOME, 1004, 1000, 1);
    put(trace, TRACE_OP, 1005, 1000, 1);
    put(trace, TRACE_FLUSH, 0, 1000, 1);
    put(trace, TRACE_FLUSH, 0, 1000, 1);
    length = trace_summary(trace, summary, sizeof(summary));
    snprintf(first, sizeof(first), "coissue 1.2.3 in process %d\n", (int)getpid());
    cr_assert(eq(sz, length, strlen(summary)));
    cr_assert(eq(int, strncmp(summary, first, strlen(first)), 0), "%s", summary);
    cr_assert(eq(str, summary + strlen(first), (char *)expected_summary));
    cr_assert(eq(sz, trace_summary(trace, part, sizeof(part)), length));
    cr_assert(eq(sz, strlen(part), sizeof(part) - 1));
}

Test(trace, the_summary_says_how_wide_packs_are_and_what_was_not_rewritten)
{
    struct trace *trace = create(NULL);
    char summary[4096];

    for (uint32_t i = 1; i <= 12; i++)
        put_member(trace, i, i, i <= 9 ? 1 : 2, i <= 9 ? 9 : 3, i == 1 || i == 10, 1000);
    trace_summary(trace, summary, sizeof(summary));
    cr_assert(ne(ptr, strstr(summary, "               2           packs: launches of several tenants"), NULL), "%s",
              summary);
    cr_assert(ne(ptr, strstr(summary, "             6.0           launches in a pack, on average\n"), NULL), "%s",
              summary);
    cr_assert(ne(ptr, strstr(summary, "               9           launches in the largest pack\n"), NULL), "%s",
              summary);
    cr_assert(eq(ptr, strstr(summary, "forms of kernels"), NULL), "%s", summary);

    put_rewrite(trace, "a", REWRITTEN, 16, 1);
    put_rewrite(trace, "b", STRANGE, 0, 2);
    put_rewrite(trace, "c", STRANGE, 0, 3);
    put_rewrite(trace, "d", NO_CODE, 0, 4);
    trace_summary(trace, summary, sizeof(summary));
    cr_assert(ne(ptr,
                 strstr(summary, "               1           forms of kernels that were rewritten for packs\n"
                                 "               3           forms of kernels that were not, because\n"
                                 "               1             there is no \"code\"\n"
                                 "               2             it is strange\n"),
                 NULL),
              "%s", summary);
}

Test(trace, the_summary_of_nothing_divides_by_nothing)
{
    char summary[4096];

    trace_summary(create(NULL), summary, sizeof(summary));
    cr_assert(ne(ptr, strstr(summary, "               0    0.0 %  kernel launches\n"), NULL), "%s", summary);
    cr_assert(ne(ptr, strstr(summary, "           0.000 us        mean time held\n"), NULL), "%s", summary);
}
