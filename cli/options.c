/* SPDX-License-Identifier: Apache-2.0
 *
 * Own parsing rather than getopt or argp: both permute or abbreviate unless told otherwise, and what follows the
 * program's name in `run` belongs to the program.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *command_name;

void cli_set_command(const char *command)
{
    command_name = command;
}

void cli_complain(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "coissue%s%s: ", command_name ? " " : "", command_name ? command_name : "");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static const struct cli_option *find(const struct cli_option *table, const char *argument, size_t length)
{
    for (; table->name; table++)
        if (strlen(table->name) == length && strncmp(table->name, argument, length) == 0)
            return table;
    return NULL;
}

int cli_options(const struct cli_option *table, int count, char **arguments)
{
    int at = 1;

    for (; at < count && arguments[at][0] == '-' && arguments[at][1]; at++) {
        const char *argument = arguments[at], *equals = strchr(argument, '=');
        size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
        const struct cli_option *option;

        if (strcmp(argument, "--") == 0)
            return at + 1;
        option = find(table, argument, length);
        if (!option) {
            cli_complain("unknown option '%.*s'; 'coissue %s --help' lists them", (int)length, argument, command_name);
            return -1;
        }
        if (option->flag && equals) {
            cli_complain("%s takes no value", option->name);
            return -1;
        }
        if (option->value && !equals && at + 1 >= count) {
            cli_complain("%s: a value is missing", option->name);
            return -1;
        }
        if (option->flag)
            *option->flag = true;
        else if (option->value)
            *option->value = equals ? equals + 1 : arguments[++at];
    }
    return at;
}

bool cli_set_variable(const char *name, const char *value)
{
    if (setenv(name, value, 1) == 0)
        return true;
    cli_complain("%s: %s", name, strerror(errno));
    return false;
}

bool cli_finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    cli_complain("cannot write to stdout: %s", strerror(errno));
    return false;
}
