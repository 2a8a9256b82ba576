/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <stdio.h>

int cli_version(int count, char **arguments)
{
    bool help = false;
    const struct cli_option table[] = {{"--help", .flag = &help}, {0}};
    int at = cli_options(table, count, arguments);

    if (at < 0)
        return STATUS_USAGE;
    if (at < count) {
        cli_complain("'%s': no argument is expected here", arguments[at]);
        return STATUS_USAGE;
    }
    if (help)
        puts("usage: coissue version");
    else
        printf("coissue %s\nbuilt by %s for %s\n", COISSUE_VERSION, COISSUE_COMPILER, COISSUE_PLATFORM);
    return cli_finish_output() ? STATUS_FINE : STATUS_USAGE;
}
