/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: docs/environment.md is what config_print_markdown writes. Without an argument, writes it to stdout:
 *   build/tests/base/environment-doc > docs/environment.md
 */
#include "base/config.h"

#include <stdio.h>
#include <string.h>

static char expected[65536], found[65536];

static int first_difference(void)
{
    int line = 1;

    for (size_t i = 0; expected[i] && expected[i] == found[i]; i++)
        line += expected[i] == '\n';
    return line;
}

int main(int count, char **arguments)
{
    size_t length = config_print_markdown(expected, sizeof(expected));
    FILE *file;

    if (length >= sizeof(expected)) {
        fprintf(stderr, "the document needs %zu bytes\n", length);
        return 1;
    }
    if (count < 2)
        return fputs(expected, stdout) < 0;
    file = fopen(arguments[1], "r");
    if (!file) {
        perror(arguments[1]);
        return 1;
    }
    found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
    fclose(file);
    if (strcmp(expected, found)) {
        fprintf(stderr, "%s:%d: differs from base/config.def; write it anew with %s > %s\n", arguments[1],
                first_difference(), arguments[0], arguments[1]);
        return 1;
    }
    return 0;
}
