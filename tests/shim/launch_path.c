/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/shim/launch_path.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Nothing of the caller's that could change what is tested. */
static void clean_environment(void)
{
    static const char *const prefixes[] = {"COISSUE_",    "SIMCUDA_", "CUDA_",
                                           "LD_PRELOAD=", "MALLOC_",  "GLIBC_TUNABLES="};

    for (char **entry = environ; *entry;) {
        bool drop = false;

        for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
            drop = drop || strncmp(*entry, prefixes[i], strlen(prefixes[i])) == 0;
        if (drop)
            for (char **next = entry; (*next = next[1]); next++)
                ;
        else
            entry++;
    }
}

static _Noreturn void become(const struct subject *subject)
{
    char *arguments[10] = {"subject"};

    clean_environment();
    if (subject->shim)
        setenv("LD_PRELOAD", subject->shim, 1);
    if (subject->libraries)
        setenv("LD_LIBRARY_PATH", subject->libraries, 1);
    for (int i = 0; i < 8 && subject->settings[i]; i++)
        putenv((char *)subject->settings[i]);
    for (int i = 0; i < 8 && subject->arguments[i]; i++)
        arguments[i + 1] = (char *)subject->arguments[i];
    execv("/proc/self/exe", arguments);
    _exit(255);
}

int subject_run(const struct subject *subject, char *output, size_t size)
{
    int ends[2], status;
    size_t length = 0;
    pid_t child;

    fflush(stdout);
    if (pipe(ends) < 0)
        return 255;
    child = fork();
    if (child < 0)
        return 255;
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        become(subject);
    }
    close(ends[1]);
    for (;;) {
        char beyond[256];
        bool full = length + 1 >= size;
        ssize_t got = read(ends[0], full ? beyond : output + length, full ? sizeof(beyond) : size - 1 - length);

        if (got <= 0)
            break;
        if (!full)
            length += (size_t)got;
    }
    output[length] = '\0';
    close(ends[0]);
    if (waitpid(child, &status, 0) < 0)
        return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

long long summary_number(const char *output, const char *label)
{
    const char *line = strstr(output, label);
    long long value = -1;

    if (!line)
        return -1;
    while (line > output && line[-1] != '\n')
        line--;
    for (; *line == ' '; line++)
        ;
    for (; (*line >= '0' && *line <= '9') || *line == ','; line++)
        if (*line != ',')
            value = (value < 0 ? 0 : value) * 10 + (*line - '0');
    return value;
}

static void *lookup(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}

bool cuda_check(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS)
        printf("%s: %s\n", what, cu_result_name(result));
    return result == CUDA_SUCCESS;
}

bool cuda_begin(struct cu_driver *cuda)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CUcontext context;
    CUdevice device;

    if (!library) {
        printf("%s\n", dlerror());
        return false;
    }
    cu_driver_fill(cuda, lookup, library);
    return cuda_check(cuda->cuInit(0), "cuInit") && cuda_check(cuda->cuDeviceGet(&device, 0), "cuDeviceGet") &&
           cuda_check(cuda->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain") &&
           cuda_check(cuda->cuCtxSetCurrent(context), "cuCtxSetCurrent");
}
