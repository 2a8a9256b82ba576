/* SPDX-License-Identifier: Apache-2.0
 *
 * coissue config: what a program started from here would get. The same code reads the variables as in the library.
 */
#include "base/config.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: coissue config [--json | --markdown]\n"
    "\n"
    "Shows each setting: its value, whether it is from the environment, what is allowed and what it does.\n"
    "Exit status 1 if a COISSUE_ variable cannot be used or is not known; what is wrong is said on stderr.\n"
    "\n"
    "  --json      as one JSON object\n"
    "  --markdown  all settings and their defaults, as in docs/environment.md\n";

static const char *get(const char *name)
{
    return getenv(name);
}

static void complain(void *arg, const char *message)
{
    bool *wrong = arg;

    /* Read by this command alone, so the table of the library does not have it. */
    if (strncmp(message, "COISSUE_LIBRARY:", strlen("COISSUE_LIBRARY:")) == 0)
        return;
    *wrong = true;
    cli_complain("%s", message);
}

/* `print` works like snprintf. */
static bool print_all(size_t (*print)(const struct config *config, char *buffer, size_t size),
                      const struct config *config)
{
    size_t size = print(config, NULL, 0) + 1;
    char *text = malloc(size);

    if (!text) {
        cli_complain("out of memory");
        return false;
    }
    print(config, text, size);
    fputs(text, stdout);
    free(text);
    return cli_finish_output();
}

static size_t as_lines(const struct config *config, char *buffer, size_t size)
{
    return config_print(config, get, false, buffer, size);
}

static size_t as_json(const struct config *config, char *buffer, size_t size)
{
    return config_print(config, get, true, buffer, size);
}

static size_t as_markdown(const struct config *config, char *buffer, size_t size)
{
    (void)config;
    return config_print_markdown(buffer, size);
}

int cli_config(int count, char **arguments)
{
    bool help = false, json = false, markdown = false, wrong = false;
    const struct cli_option table[] = {
        {"--help", .flag = &help}, {"--json", .flag = &json}, {"--markdown", .flag = &markdown}, {0}};
    int at = cli_options(table, count, arguments);
    struct config config;

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
    if (json && markdown) {
        cli_complain("--json and --markdown exclude each other");
        return STATUS_USAGE;
    }
    if (!markdown)
        config_read(&config, get, environ, complain, &wrong);
    if (!print_all(markdown ? as_markdown : json ? as_json : as_lines, &config))
        return STATUS_USAGE;
    return wrong ? STATUS_BAD_NEWS : STATUS_FINE;
}
