/* SPDX-License-Identifier: Apache-2.0
 *
 * Where libcoissue.so is, and LD_PRELOAD.
 */
#include "cli/cli.h"

#include "base/base.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "libcoissue.so";

/* Folder of this program. Empty if /proc is not there. */
static void find_my_folder(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);

    folder[length > 0 ? length : 0] = '\0';
    if (strrchr(folder, '/'))
        *strrchr(folder, '/') = '\0';
}

/* The loader only warns about a preload that it cannot take, and starts the program without it. */
static bool loads(const char *origin, const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    bool fine = library && dlsym(library, "cuLaunchKernel");

    if (!library)
        cli_complain("%s: %s", origin, dlerror());
    else if (!fine)
        cli_complain("%s: '%s' does not stand in for the CUDA driver", origin, path);
    if (library)
        dlclose(library);
    return fine;
}

static bool check(const char *origin, const char *given, char *path)
{
    if (!realpath(given, path)) {
        cli_complain("%s: '%s': %s", origin, given, strerror(errno));
        return false;
    }
    return loads(origin, path);
}

bool cli_find_library(const char *wanted, char *path)
{
    /* As installed, then as built. COISSUE_LIBRARY_* come from meson.build. */
    static const char *const places[] = {COISSUE_LIBRARY_RELATIVE, "../shim/libcoissue.so"};
    const char *variable = getenv("COISSUE_LIBRARY");
    char folder[PATH_MAX], joined[2 * PATH_MAX];

    if (wanted)
        return check("--library", wanted, path);
    if (variable && *variable)
        return check("COISSUE_LIBRARY", variable, path);
    find_my_folder(folder, sizeof(folder));
    for (size_t i = 0; *folder && i < array_length(places); i++) {
        snprintf(joined, sizeof(joined), "%s/%s", folder, places[i]);
        if (realpath(joined, path))
            return loads(file_name, path);
    }
    if (realpath(COISSUE_LIBRARY_INSTALLED, path))
        return loads(file_name, path);
    cli_complain("cannot find %s: not in %s/%s, nor in %s; COISSUE_LIBRARY can name it", file_name, folder, places[0],
                 COISSUE_LIBRARY_INSTALLED);
    return false;
}

/* The loader separates by colons and spaces (ld.so(8)). */
static const char separators[] = ": ";

bool cli_is_preloaded(void)
{
    const char *list = getenv("LD_PRELOAD");

    while (list && *list) {
        size_t length = strcspn(list, separators);
        size_t base = length;

        while (base > 0 && list[base - 1] != '/')
            base--;
        if (length - base == strlen(file_name) && strncmp(list + base, file_name, length - base) == 0)
            return true;
        list += length + strspn(list + length, separators);
    }
    return false;
}

/* Behind what is there: libraries in front may want to see calls before we do. */
bool cli_preload(const char *library)
{
    const char *given = getenv("LD_PRELOAD");
    char *joined;
    bool fine;

    if (cli_is_preloaded())
        return true;
    if (strpbrk(library, separators)) {
        cli_complain("'%s': LD_PRELOAD cannot hold a path with a colon or a space", library);
        return false;
    }
    if (asprintf(&joined, "%s%s%s", given ? given : "", given && *given ? ":" : "", library) < 0) {
        cli_complain("out of memory");
        return false;
    }
    fine = setenv("LD_PRELOAD", joined, 1) == 0;
    if (!fine)
        cli_complain("LD_PRELOAD: %s", strerror(errno));
    free(joined);
    return fine;
}

bool cli_add_library(const char *wanted)
{
    char path[PATH_MAX];

    if (cli_is_preloaded()) {
        if (wanted)
            cli_complain("--library: LD_PRELOAD has a libcoissue.so already");
        return !wanted;
    }
    return cli_find_library(wanted, path) && cli_preload(path);
}
