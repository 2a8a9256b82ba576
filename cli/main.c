/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int count, char **arguments);
    const char *help;
} commands[] = {
    {"run", cli_run, "start a program with coissue in front of it"},
    {"config", cli_config, "show all settings and where they come from"},
    {"doctor", cli_doctor, "say whether coissue would work here"},
    {"serve", cli_serve, "make the launches of several programs, as one"},
    {"trace", cli_trace, "show a trace in numbers"},
    {"verify", cli_verify, "say whether a program's output stays the same with rewritten kernels"},
    {"version", cli_version, "show the version"},
};

static int help(void)
{
    puts("usage: coissue COMMAND [options]\n");
    for (size_t i = 0; i < array_length(commands); i++)
        printf("  %-10s%s\n", commands[i].name, commands[i].help);
    puts("\n'coissue COMMAND --help' shows the options of a command.");
    return cli_finish_output() ? STATUS_FINE : STATUS_USAGE;
}

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : NULL;

    if (!name) {
        cli_complain("a command is missing; 'coissue --help' lists them");
        return STATUS_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return help();
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < array_length(commands); i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        cli_set_command(name);
        return commands[i].run(count - 1, arguments + 1);
    }
    cli_complain("'%s' is not a command; 'coissue --help' lists them", name);
    return STATUS_USAGE;
}
