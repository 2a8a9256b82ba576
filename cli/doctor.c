/* SPDX-License-Identifier: Apache-2.0
 *
 * coissue doctor: would it work here, in plain words. What can be tried is tried, in processes of their own: a driver
 * that crashes is a finding, not the end of the examination.
 *
 * The probe is this program again. It loads the driver, and reports lines "key value" on a descriptor of its own, since
 * others may write to stdout. With the preload it also reports in which file the driver's functions are found.
 */
#include "base/base.h"
#include "base/config.h"
#include "cli/cli.h"
#include "driver/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: coissue doctor\n"
    "\n"
    "Says whether coissue would work here: driver, devices, library, coalescing, variables, MPS.\n"
    "Exit status 0 if it would.\n";

enum { TEXT_MAX = 1024, DEVICES_MAX = 16, PROBE_SECONDS = 60 /* creating no context, a driver answers in a few */ };

static bool usable;

__attribute__((format(printf, 2, 3))) static void say(const char *mark, const char *format, ...)
{
    va_list arguments;

    printf("%-5s ", mark);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    if (strcmp(mark, "FAIL") == 0)
        usable = false;
}

/* --- the probe, in a process of its own --- */

static const char *file_of(const void *address)
{
    Dl_info info;

    return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

static void report_driver(FILE *out, void *library)
{
    typeof(((struct cu_driver *)NULL)->cuInit) init;
    typeof(((struct cu_driver *)NULL)->cuDriverGetVersion) get_version;
    typeof(((struct cu_driver *)NULL)->cuDeviceGetCount) get_count;
    typeof(((struct cu_driver *)NULL)->cuDeviceGetName) get_name;
    int version = 0, count = 0;
    CUresult result;

    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&get_version = dlsym(library, "cuDriverGetVersion");
    *(void **)&get_count = dlsym(library, "cuDeviceGetCount");
    *(void **)&get_name = dlsym(library, "cuDeviceGetName");
    fprintf(out, "driver %s\n", file_of((void *)get_version));
    if (!init || !get_version || !get_count || !get_name) {
        fprintf(out, "init it lacks basic functions\n");
        return;
    }
    if (get_version(&version) == CUDA_SUCCESS)
        fprintf(out, "version %d.%d\n", version / 1000, version % 1000 / 10);
    result = init(0);
    if (result == CUDA_SUCCESS)
        result = get_count(&count);
    fprintf(out, "init %s\n", cu_result_name(result));
    for (int i = 0; i < count && i < DEVICES_MAX; i++) {
        char name[256] = "";

        get_name(name, sizeof(name), i);
        fprintf(out, "device %s\n", name);
    }
}

/* Which of the driver's functions are not found in the driver's own file. */
static void report_hooks(FILE *out, void *library, const char *driver_file)
{
    int present = 0, hooked = 0;

    for (int i = 0; i < CU_ENTRY_COUNT; i++) {
        void *found = dlsym(library, cu_entry_name((enum cu_entry)i));
        const char *file = file_of(found);

        present += found != NULL;
        hooked += *file && strcmp(file, driver_file) != 0;
    }
    fprintf(out, "hooks %d %d\n", hooked, present);
    fprintf(out, "launch %s\n", file_of(dlsym(library, "cuLaunchKernel")));
    fprintf(out, "lookup %s\n", file_of(dlsym(library, "cuGetProcAddress_v2")));
}

/* Which of the functions are missing that engine/twin.c loads rewritten kernels with. */
static void report_coalescing(FILE *out, void *library)
{
    static const char *const needed[] = {"cuLibraryLoadData",   "cuLibraryUnload",      "cuLibraryGetKernel",
                                         "cuKernelGetFunction", "cuKernelGetAttribute", "cuKernelSetAttribute",
                                         "cuFuncGetAttribute",  "cuFuncGetParamInfo"};
    const char *separator = "unloadable ";

    for (size_t i = 0; i < array_length(needed); i++) {
        if (dlsym(library, needed[i]))
            continue;
        fprintf(out, "%s%s", separator, needed[i]);
        separator = ", ";
    }
    if (*separator == ',')
        fputc('\n', out);
}

/* What coalesce/inflate.c looks for. */
static void report_inflaters(FILE *out)
{
    static const struct {
        const char *key, *file, *function;
    } inflaters[] = {{"zstd", "libzstd.so.1", "ZSTD_decompress"}, {"lz4", "liblz4.so.1", "LZ4_decompress_safe"}};

    for (size_t i = 0; i < array_length(inflaters); i++) {
        void *library = dlopen(inflaters[i].file, RTLD_NOW | RTLD_LOCAL);

        if (library)
            fprintf(out, "%s %s\n", inflaters[i].key, file_of(dlsym(library, inflaters[i].function)));
    }
}

static int probe(int fd)
{
    FILE *out = fdopen(fd, "w");
    void *library;

    if (!out)
        return STATUS_USAGE;
    /* A process with the preload has the name; dlsym of "dlsym" says where look-ups go, driver or not. */
    fprintf(out, "dlsym %s\n", file_of(dlsym(RTLD_DEFAULT, "dlsym")));
    report_inflaters(out);
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(out, "missing %s\n", dlerror());
        return fclose(out) ? STATUS_USAGE : STATUS_FINE;
    }
    report_driver(out, library);
    report_hooks(out, library, file_of(dlsym(library, "cuDriverGetVersion")));
    report_coalescing(out, library);
    return fclose(out) ? STATUS_USAGE : STATUS_FINE;
}

/* --- asking it --- */

struct findings {
    char missing[TEXT_MAX]; /* why the driver could not be loaded */
    char driver[TEXT_MAX], version[TEXT_MAX], init[TEXT_MAX];
    char devices[DEVICES_MAX][TEXT_MAX];
    int device_count, hooked, present;
    char dlsym_file[TEXT_MAX], launch[TEXT_MAX], lookup[TEXT_MAX];
    char unloadable[TEXT_MAX], zstd[TEXT_MAX], lz4[TEXT_MAX];
    int status; /* of waitpid */
};

static void take_line(struct findings *findings, char *text)
{
    const struct {
        const char *key;
        char *to;
    } keys[] = {{"missing", findings->missing},  {"driver", findings->driver},
                {"version", findings->version},  {"init", findings->init},
                {"dlsym", findings->dlsym_file}, {"launch", findings->launch},
                {"lookup", findings->lookup},    {"zstd", findings->zstd},
                {"lz4", findings->lz4},          {"unloadable", findings->unloadable}};
    char *value = strchr(text, ' ');

    text[strcspn(text, "\n")] = '\0';
    if (!value)
        return;
    *value++ = '\0';
    if (strcmp(text, "hooks") == 0 && sscanf(value, "%d %d", &findings->hooked, &findings->present) == 2)
        return;
    if (strcmp(text, "device") == 0 && findings->device_count < DEVICES_MAX)
        snprintf(findings->devices[findings->device_count++], TEXT_MAX, "%s", value);
    for (size_t i = 0; i < array_length(keys); i++)
        if (strcmp(text, keys[i].key) == 0)
            snprintf(keys[i].to, TEXT_MAX, "%s", value);
}

static void become_probe(const char *library, int fd)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", fd);
    alarm(PROBE_SECONDS); /* stays over exec */
    /* Not the user's trace or log: a probe is not what they are for. */
    unsetenv("COISSUE_TRACE");
    unsetenv("COISSUE_SUMMARY");
    unsetenv("COISSUE_LIBRARY");
    setenv("COISSUE_LOG", "off", 1);
    if (!library || cli_preload(library))
        execl("/proc/self/exe", "coissue", "doctor", "--probe", number, (char *)NULL);
    _exit(STATUS_USAGE);
}

static bool ask(const char *library, struct findings *findings)
{
    char text[TEXT_MAX + 16];
    int ends[2];
    FILE *in;
    pid_t pid;

    memset(findings, 0, sizeof(*findings));
    if (pipe(ends)) {
        cli_complain("cannot make a pipe: %s", strerror(errno));
        return false;
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        become_probe(library, ends[1]);
    }
    close(ends[1]);
    in = pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (!in) {
        cli_complain("cannot start a process: %s", strerror(errno));
        close(ends[0]);
        return false;
    }
    while (fgets(text, sizeof(text), in))
        take_line(findings, text);
    fclose(in);
    while (waitpid(pid, &findings->status, 0) < 0 && errno == EINTR)
        ;
    return true;
}

/* --- the examination --- */

static bool says_ended(const char *what, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        say("FAIL", "%s gave no answer within %d seconds", what, PROBE_SECONDS);
    else if (WIFSIGNALED(status))
        say("FAIL", "%s was ended by signal %d (%s)", what, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        say("FAIL", "%s ended with status %d", what, WEXITSTATUS(status));
    return WIFSIGNALED(status) || WEXITSTATUS(status);
}

static void examine_driver(const struct findings *findings)
{
    if (findings->missing[0]) {
        say("FAIL", "the CUDA driver cannot be loaded: %s", findings->missing);
        return;
    }
    if (says_ended("a process that loads the CUDA driver", findings->status))
        return;
    say("ok", "the CUDA driver is %s, for CUDA %s", findings->driver,
        findings->version[0] ? findings->version : "(it does not say)");
    if (strcmp(findings->init, "CUDA_SUCCESS") != 0)
        say("FAIL", "the driver cannot begin: cuInit: %s", findings->init);
    else if (!findings->device_count)
        say("FAIL", "the driver has no device to offer");
    for (int i = 0; i < findings->device_count; i++)
        say("ok", "device %d is %s", i, findings->devices[i]);
}

static void examine_library(const char *library, const struct findings *findings)
{
    if (says_ended("a process with libcoissue.so preloaded", findings->status))
        return;
    if (!strstr(findings->dlsym_file, "libcoissue.so")) {
        say("FAIL", "the loader did not preload it: look-ups of functions go to %s",
            findings->dlsym_file[0] ? findings->dlsym_file : "nowhere");
        return;
    }
    say("ok", "it is preloaded into a program, and look-ups of functions go through it");
    if (findings->missing[0])
        return;
    if (strstr(findings->launch, "libcoissue.so") && strstr(findings->lookup, "libcoissue.so"))
        say("ok", "of %d functions that this driver has and coissue knows, %d go through it; the others need no order",
            findings->present, findings->hooked);
    else
        say("FAIL", "programs find cuLaunchKernel in %s and cuGetProcAddress in %s, not in %s",
            findings->launch[0] ? findings->launch : "no file", findings->lookup[0] ? findings->lookup : "no file",
            library);
}

static void examine_inflater(const char *what, const char *library, const char *found)
{
    if (*found)
        say("ok", "kernels in images that are compressed by %s can be coalesced: %s", what, found);
    else
        say("warn", "kernels in images that are compressed by %s are not coalesced: %s is missing", what, library);
}

/* Can launches of several tenants become one? Without it, coissue works all the same. */
static void examine_coalescing(const struct findings *findings)
{
    if (findings->missing[0] || findings->status)
        return; /* without a driver there is nothing to say */
    if (findings->unloadable[0]) {
        say("warn", "launches are not coalesced: this driver cannot load rewritten kernels, for it lacks %s",
            findings->unloadable);
        return;
    }
    say("ok", "launches can be coalesced: this driver can load rewritten kernels");
    examine_inflater("Zstandard", "libzstd.so.1", findings->zstd);
    examine_inflater("LZ4", "liblz4.so.1", findings->lz4);
}

static void examine_permissions(void)
{
    glob_t nodes;

    if (glob("/dev/nvidia[0-9]*", 0, NULL, &nodes) == 0) {
        for (size_t i = 0; i < nodes.gl_pathc; i++)
            if (access(nodes.gl_pathv[i], R_OK | W_OK))
                say("warn", "%s: %s", nodes.gl_pathv[i], strerror(errno));
        globfree(&nodes);
    }
    say("ok", "no special permission is needed: no ptrace, no root, no daemon");
}

static void examine_variables(void)
{
    static const struct {
        const char *name, *mark, *meaning;
    } known[] = {
        {"CUDA_VISIBLE_DEVICES", "note", "only those devices are seen"},
        {"CUDA_DEVICE_ORDER", "note", "devices are numbered so"},
        {"CUDA_LAUNCH_BLOCKING", "warn", "each launch waits for its end, so nothing is held"},
        {"CUDA_DEVICE_MAX_CONNECTIONS", "note", "streams share that many queues into the device"},
        {"CUDA_MODULE_LOADING", "note", "says when kernels are loaded; works with coissue"},
        {"CUDA_MPS_PIPE_DIRECTORY", "note", "where the MPS daemon is looked for"},
        {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "note", "MPS gives this process that share of the device"},
        {"CUDA_INJECTION64_PATH", "warn", "a profiler is loaded too; it sees launches when they are issued"},
        {"LD_PRELOAD", "note", "preloaded already"},
    };

    for (size_t i = 0; i < array_length(known); i++) {
        const char *value = getenv(known[i].name);
        bool off = value && strcmp(known[i].name, "CUDA_LAUNCH_BLOCKING") == 0 && strcmp(value, "0") == 0;

        if (value && *value && !off)
            say(known[i].mark, "%s=%s: %s", known[i].name, value, known[i].meaning);
    }
}

/* Process id in the file that the MPS daemon keeps beside its pipe; 0: none that can be read. */
static pid_t mps_daemon(const char *folder)
{
    char path[PATH_MAX];
    long pid = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/nvidia-cuda-mps-control.pid", folder);
    file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%ld", &pid) != 1 || pid < 1)
        pid = 0;
    fclose(file);
    return (pid_t)pid;
}

/* Only looks: a client that connects would start the MPS server. */
static void examine_mps(void)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[PATH_MAX];
    struct stat info;
    pid_t pid;

    folder = folder && *folder ? folder : "/tmp/nvidia-mps"; /* the daemon's default */
    snprintf(path, sizeof(path), "%s/control", folder);
    if (stat(path, &info)) {
        say("note", "no MPS daemon (%s: %s): processes share the device by time slices", path, strerror(errno));
        return;
    }
    pid = mps_daemon(folder);
    if (pid && kill(pid, 0) && errno == ESRCH)
        say("warn", "%s is there, but its MPS daemon (process %ld) is not", path, (long)pid);
    else if (pid)
        say("ok", "an MPS daemon (process %ld) serves %s", (long)pid, folder);
    else
        say("note", "%s is there; whether an MPS daemon serves it cannot be seen from here", path);
}

static void complain_setting(void *arg, const char *message)
{
    (void)arg;
    if (strncmp(message, "COISSUE_LIBRARY:", strlen("COISSUE_LIBRARY:")) != 0)
        say("warn", "%s", message);
}

static const char *get(const char *name)
{
    return getenv(name);
}

static void examine_settings(void)
{
    struct config config;

    config_read(&config, get, environ, complain_setting, NULL);
    if (config.disable || config.mode == MODE_OFF)
        say("warn", "%s switches coissue off", config.disable ? "COISSUE_DISABLE" : "COISSUE_MODE");
    else if (!config.coalesce)
        say("note", "COISSUE_COALESCE switches coalescing off");
    else if (config.mode != MODE_FULL)
        say("note", "launches are only coalesced in mode full");
    if (config.verify[0])
        say("note", "COISSUE_VERIFY is for testing: each launch is replaced, and none are coalesced");
}

static int examine(void)
{
    static struct findings plain, preloaded;
    char library[PATH_MAX];

    usable = true;
    if (!ask(NULL, &plain))
        return STATUS_USAGE;
    examine_driver(&plain);
    if (cli_find_library(NULL, library)) {
        say("ok", "the library is %s", library);
        if (!ask(library, &preloaded))
            return STATUS_USAGE;
        examine_library(library, &preloaded);
    } else {
        say("FAIL", "there is no libcoissue.so to preload");
    }
    examine_coalescing(&plain);
    examine_permissions();
    examine_settings();
    examine_variables();
    examine_mps();
    puts(usable ? "\ncoissue can be used here." : "\ncoissue cannot be used here: see FAIL above.");
    return !cli_finish_output() ? STATUS_USAGE : usable ? STATUS_FINE : STATUS_BAD_NEWS;
}

int cli_doctor(int count, char **arguments)
{
    bool help = false;
    const char *probe_fd = NULL;
    const struct cli_option table[] = {{"--help", .flag = &help}, {"--probe", .value = &probe_fd}, {0}};
    int at = cli_options(table, count, arguments);

    if (at < 0)
        return STATUS_USAGE;
    if (at < count) {
        cli_complain("'%s': no argument is expected here", arguments[at]);
        return STATUS_USAGE;
    }
    if (help) {
        fputs(usage, stdout);
        return cli_finish_output() ? STATUS_FINE : STATUS_USAGE;
    }
    return probe_fd ? probe(atoi(probe_fd)) : examine();
}
