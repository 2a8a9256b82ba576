/* SPDX-License-Identifier: Apache-2.0
 *
 * Options, where things are, and the verdict. Exit status: 0 results are equal and launches were held, 1 not so or a
 * run failed, 2 the command line or what is installed does not allow to begin.
 */
#include "demo/demo.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: coissue-demo [options]\n"
    "\n"
    "Runs a small workload without and with libcoissue.so, compares the results and shows what coissue did. On the "
    "GPU\n"
    "if there is one, else on the simulated device.\n"
    "\n"
    "  --tenants N       streams that work at the same time, half of them in threads of their own (8)\n"
    "  --rounds N        requests of each tenant (20)\n"
    "  --json FILE       write the numbers to FILE as well\n"
    "  --device-lib DIR  take libcuda.so.1 from DIR\n"
    "  --library FILE    take this libcoissue.so; also by COISSUE_LIBRARY\n"
    "  --verbose         say what is run, and what each tenant computed\n"
    "  --help            show this\n"
    "\n"
    "The trace is written to coissue-demo-PID.json in the current folder, or in $TMPDIR if that cannot be written.\n";

void complain(const char *format, ...)
{
    va_list arguments;

    fputs("coissue-demo: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static bool read_count(const char *option, const char *text, unsigned int most, unsigned int *count)
{
    char *end = NULL;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < 1 || value > most) {
        complain("%s: '%s' is not a number from 1 to %u", option, text, most);
        return false;
    }
    *count = (unsigned int)value;
    return true;
}

/* 0: go on. 1: nothing more to do. 2: wrong, and said so. */
static int read_options(int count, char **arguments, struct demo_options *options)
{
    static const struct option known[] = {
        {"tenants", required_argument, NULL, 't'}, {"rounds", required_argument, NULL, 'r'},
        {"json", required_argument, NULL, 'j'},    {"device-lib", required_argument, NULL, 'd'},
        {"library", required_argument, NULL, 'l'}, {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},          {0},
    };
    int option;

    opterr = 0;
    while ((option = getopt_long(count, arguments, "+:hv", known, NULL)) != -1) {
        const char *given = arguments[optind - 1];

        switch (option) {
        case 't':
            if (!read_count("--tenants", optarg, TENANTS_MAX, &options->tenants))
                return 2;
            break;
        case 'r':
            if (!read_count("--rounds", optarg, ROUNDS_MAX, &options->rounds))
                return 2;
            break;
        case 'j':
            options->json = optarg;
            break;
        case 'd':
            options->device_lib = optarg;
            break;
        case 'l':
            options->library = optarg;
            break;
        case 'v':
            options->verbose = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 1;
        case ':':
            complain("%s: a value is missing", given);
            return 2;
        default:
            complain("%s: unknown option; --help lists them", given);
            return 2;
        }
    }
    if (arguments[optind]) {
        complain("'%s': no argument is expected here", arguments[optind]);
        return 2;
    }
    return 0;
}

/* A file of the build folder that this program lies in, or an empty string. */
static void beside_me(const char *relative, char *path)
{
    char me[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", me, sizeof(me) - 1);
    char *slash;

    path[0] = '\0';
    if (length <= 0)
        return;
    me[length] = '\0';
    slash = strrchr(me, '/');
    if (slash)
        *slash = '\0';
    snprintf(joined, sizeof(joined), "%s/../%s", me, relative);
    if (!realpath(joined, path))
        path[0] = '\0';
}

/* The loader only warns about a preload that it cannot take, and goes on without; here that is an error. */
static bool find_library(struct demo_options *options, char *path)
{
    const char *given = options->library ? options->library : getenv("COISSUE_LIBRARY");
    void *library;

    if (!given || !*given) {
        beside_me("shim/libcoissue.so", path);
        if (!*path) {
            complain("libcoissue.so is not in ../shim beside this program; name it with --library");
            return false;
        }
    } else if (!realpath(given, path)) {
        complain("%s: %s", given, strerror(errno));
        return false;
    }
    if (strpbrk(path, ": ")) {
        complain("%s: LD_PRELOAD cannot hold a path with a colon or a space", path);
        return false;
    }
    library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library || !dlsym(library, "cuLaunchKernel")) {
        complain("%s: %s", path, library ? "this library does not stand in for cuLaunchKernel" : dlerror());
        return false;
    }
    options->library = path;
    return true;
}

static bool has_driver(const char *folder)
{
    char path[2 * PATH_MAX];

    snprintf(path, sizeof(path), "%s/libcuda.so.1", folder);
    return access(path, R_OK) == 0;
}

/*
 * Where the driver comes from: the folder that was asked for, else where the loader finds one that has a device, else
 * the simulated one of this build. NULL in `*folder`: leave it to the loader.
 */
static bool find_device(const struct demo_options *options, const char *simulated, const char **folder)
{
    struct child_report report;

    *folder = options->device_lib;
    if (options->device_lib) {
        if (!has_driver(options->device_lib))
            complain("--device-lib %s: there is no libcuda.so.1", options->device_lib);
        return has_driver(options->device_lib);
    }
    if (child_run(options, &(struct child){.probe = true}, &report))
        return true;
    if (!*simulated || !has_driver(simulated)) {
        complain("no GPU can be used here, and this build has no simulated device (tests/simcuda/libcuda.so.1)");
        return false;
    }
    *folder = simulated;
    return true;
}

/* Whether this machine has device nodes of a GPU: of NVIDIA's driver, of its boards, or of Windows under WSL. */
static bool has_gpu_nodes(void)
{
    static const char *const patterns[] = {"/dev/nvidia*", "/dev/nvhost*", "/dev/nvgpu*", "/dev/dxg"};
    bool found = false;

    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]) && !found; i++) {
        glob_t nodes;

        if (glob(patterns[i], 0, NULL, &nodes) == 0) {
            found = true;
            globfree(&nodes);
        }
    }
    return found;
}

/* The simulated device has the name of a real one. What came from this build, or without any GPU, is none. */
static void name_device(const struct child_report *report, const char *simulated, char *name, size_t size)
{
    char path[PATH_MAX];
    size_t length = strlen(simulated);
    bool ours =
        length && realpath(report->driver, path) && strncmp(path, simulated, length) == 0 && path[length] == '/';

    snprintf(name, size, "%s%s", ours || !has_gpu_nodes() ? "simulated " : "", report->device);
}

/* In the current folder, or else in $TMPDIR. */
static bool name_trace(char *path, size_t size)
{
    const char *temporary = getenv("TMPDIR");
    char here[PATH_MAX];
    const char *folders[] = {getcwd(here, sizeof(here)), temporary && *temporary ? temporary : "/tmp"};

    for (int i = 0; i < 2; i++) {
        if (!folders[i] || access(folders[i], W_OK | X_OK))
            continue;
        snprintf(path, size, "%s/coissue-demo-%d.json", folders[i], (int)getpid());
        return true;
    }
    complain("neither the current folder nor %s can be written, so there is no place for the trace", folders[1]);
    return false;
}

static bool compare(const struct demo_options *options, const struct child_report *direct,
                    const struct child_report *held)
{
    bool equal = true;

    for (unsigned int i = 0; i < options->tenants; i++) {
        if (options->verbose)
            complain("tenant %3u: %016llx direct, %016llx with coissue", i, (unsigned long long)direct->hashes[i],
                     (unsigned long long)held->hashes[i]);
        equal = equal && direct->hashes[i] == held->hashes[i];
    }
    return equal;
}

/* Whether the numbers show what the demo is for; says what is not so. */
static bool judge(const struct demo_result *result, uint64_t launches_made)
{
    const struct launch_counts *counts = &result->counts;
    unsigned long long issued = counts->alone + counts->coscheduled + counts->coalesced;

    if (!result->equal)
        complain("the results differ");
    if (counts->lost)
        complain("the trace lost %llu events, so its numbers are too small", (unsigned long long)counts->lost);
    else if (counts->seen != launches_made)
        complain("%llu launches were made, but coissue saw %llu", (unsigned long long)launches_made,
                 (unsigned long long)counts->seen);
    else if (!counts->held)
        complain("no launch was held; COISSUE_MODE, COISSUE_HOLD_CAP_US and CUDA_LAUNCH_BLOCKING can be the cause");
    else if (issued != counts->held)
        complain("%llu launches were held, but %llu of those were issued", (unsigned long long)counts->held, issued);
    else
        return result->equal;
    return false;
}

static int run(const struct demo_options *options, const char *simulated, const char *driver_dir)
{
    struct child_report direct, held;
    struct demo_result result = {0};

    if (!name_trace(result.trace, sizeof(result.trace)))
        return 2;
    if (!child_run(options, &(struct child){.driver_dir = driver_dir}, &direct))
        return 1;
    if (!child_run(options,
                   &(struct child){.library = options->library, .driver_dir = driver_dir, .trace = result.trace},
                   &held))
        return 1;
    if (!*held.shim || access(result.trace, F_OK)) {
        complain("coissue did nothing: %s, so it is switched off (COISSUE_MODE, COISSUE_DISABLE) or was not preloaded",
                 *held.shim ? "it wrote no trace" : "launches go straight to the driver");
        return 1;
    }
    if (!counts_read(result.trace, &result.counts))
        return 1;
    name_device(&held, simulated, result.device, sizeof(result.device));
    result.equal = compare(options, &direct, &held);
    result.direct_ms = (double)direct.time_ns / 1e6;
    result.coissue_ms = (double)held.time_ns / 1e6;
    result_print(options, &result);
    if (fflush(stdout)) {
        complain("cannot write to stdout: %s", strerror(errno));
        return 1;
    }
    if (options->json && !result_write_json(options, &result))
        return 1;
    return judge(&result, held.launches_made) ? 0 : 1;
}

int main(int count, char **arguments)
{
    struct demo_options options = {.tenants = 8, .rounds = 20};
    char library[PATH_MAX], simulated[PATH_MAX];
    const char *driver_dir;
    int status;

    if (count > 1 && strcmp(arguments[1], "--child") == 0)
        return child_main(count, arguments);
    status = read_options(count, arguments, &options);
    if (status)
        return status == 1 ? 0 : 2;
    beside_me("tests/simcuda", simulated);
    if (!find_library(&options, library) || !find_device(&options, simulated, &driver_dir))
        return 2;
    return run(&options, simulated, driver_dir);
}
