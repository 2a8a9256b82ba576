/* SPDX-License-Identifier: Apache-2.0
 *
 * coissue serve: checks what was asked for, then becomes the broker. That is a program of its own, because it holds a
 * driver and the engine, which this command must not.
 */
#include "base/base.h"
#include "base/config.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: coissue serve [options]\n"
    "\n"
    "Serves one device to all programs of this user that are started with coissue: their launches are made here, and\n"
    "launches of the same kernel become one. Runs in the foreground until SIGTERM or SIGINT; then it finishes what it "
    "has\n"
    "begun, and the programs go on by themselves. They find it by its socket, in a folder that both can see.\n"
    "\n"
    "  --device N      number of the device, as nvidia-smi -L has it; default 0\n"
    "  --folder PATH   folder of the socket                       COISSUE_BROKER_FOLDER\n"
    "  --policy NAME   scheduling policy                          COISSUE_POLICY\n"
    "  --packs N       coalesced launches in flight               COISSUE_PACKS\n"
    "  --trace FILE    trace for ui.perfetto.dev                  COISSUE_TRACE\n"
    "  --summary       print a table at the end                   COISSUE_SUMMARY\n"
    "  --log LEVEL     off, error, warn, info, debug or trace     COISSUE_LOG\n"
    "\n"
    "Exit status 0 after a signal, 1 if it could not serve.\n";

static const char *get(const char *name)
{
    return getenv(name);
}

static void complain(void *arg, const char *message)
{
    bool *wrong = arg;

    *wrong = true;
    cli_complain("%s", message);
}

static bool settings_are_fine(void)
{
    struct config config;
    bool wrong = false;

    config_read(&config, get, NULL, complain, &wrong);
    return !wrong;
}

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 5;
}

/* As installed, then as built. */
static void find_broker(char *path, size_t size)
{
    static const char *const places[] = {COISSUE_BROKER_RELATIVE, "../broker/coissue-broker"};
    char folder[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

    folder[length > 0 ? length : 0] = '\0';
    if (strrchr(folder, '/'))
        *strrchr(folder, '/') = '\0';
    for (size_t i = 0; i < array_length(places); i++) {
        snprintf(path, size, "%s/%s", folder, places[i]);
        if (access(path, X_OK) == 0)
            return;
    }
    snprintf(path, size, "%s", COISSUE_BROKER_INSTALLED);
}

int cli_serve(int count, char **arguments)
{
    const char *device = "0", *folder = NULL, *policy = NULL, *packs = NULL, *trace = NULL, *log = NULL;
    bool help = false, summary = false;
    const struct cli_option table[] = {
        {"--help", &help, NULL},     {"--device", NULL, &device},   {"--folder", NULL, &folder},
        {"--policy", NULL, &policy}, {"--packs", NULL, &packs},     {"--trace", NULL, &trace},
        {"--log", NULL, &log},       {"--summary", &summary, NULL}, {0},
    };
    char path[PATH_MAX + 64];
    int used = cli_options(table, count, arguments);

    if (used < 0)
        return STATUS_USAGE;
    if (help) {
        fputs(usage, stdout);
        return cli_finish_output() ? STATUS_FINE : STATUS_USAGE;
    }
    if (used < count) {
        cli_complain("'%s' is not an option", arguments[used]);
        return STATUS_USAGE;
    }
    if (!is_number(device)) {
        cli_complain("--device: '%s' is not the number of a device", device);
        return STATUS_USAGE;
    }
    if ((policy && !cli_set_variable("COISSUE_POLICY", policy)) ||
        (packs && !cli_set_variable("COISSUE_PACKS", packs)) || (trace && !cli_set_variable("COISSUE_TRACE", trace)) ||
        (log && !cli_set_variable("COISSUE_LOG", log)) || (summary && !cli_set_variable("COISSUE_SUMMARY", "on")) ||
        !settings_are_fine())
        return STATUS_USAGE;
    unsetenv("LD_PRELOAD"); /* the broker calls the driver itself */
    find_broker(path, sizeof(path));
    execl(path, "coissue-broker", device, folder ? folder : "", (char *)NULL);
    cli_complain("%s: %s", path, strerror(errno));
    return 1;
}
