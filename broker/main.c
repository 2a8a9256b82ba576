/* SPDX-License-Identifier: Apache-2.0
 *
 * coissue-broker: what `coissue serve` starts. Its arguments are checked there; here they are only read.
 *
 *   coissue-broker DEVICE FOLDER        FOLDER may be empty: the user's
 */
#include "broker/broker.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *get(const char *name)
{
    return getenv(name);
}

static void complain(void *argument, const char *message)
{
    (void)argument;
    fprintf(stderr, "coissue serve: %s\n", message);
}

int main(int count, char **arguments)
{
    static struct broker_options options;
    char *end;

    if (count != 3) {
        fprintf(stderr, "usage: coissue-broker DEVICE FOLDER\n");
        return 2;
    }
    options.device = (int)strtol(arguments[1], &end, 10);
    options.folder = arguments[2];
    if (*end || options.device < 0) {
        fprintf(stderr, "coissue serve: \"%s\" is not the number of a device\n", arguments[1]);
        return 2;
    }
    config_read(&options.config, get, environ, complain, NULL);
    log_set((enum log_level)options.config.log_level, STDERR_FILENO);
    return broker_keep(&options);
}
