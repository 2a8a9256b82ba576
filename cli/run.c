/* SPDX-License-Identifier: Apache-2.0
 *
 * coissue run: sets COISSUE_ variables and LD_PRELOAD, then becomes the program. Values are checked here, with the
 * library's own parser, because the library itself can only warn and go on.
 */
#include "base/base.h"
#include "base/config.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "usage: coissue run [options] [--] PROGRAM [ARGUMENTS]\n"
                            "\n"
                            "Starts PROGRAM with libcoissue.so preloaded. Everything from PROGRAM on is passed as it "
                            "is; exit status and signals\n"
                            "are the program's. What is set already stays, unless an option says otherwise.\n"
                            "\n"
                            "  --mode MODE        full, gate or off                        COISSUE_MODE\n"
                            "  --slo TIME         latency target, as 10ms, 500us or 1.5s   COISSUE_SLO_MS\n"
                            "  --weight N         share among best-effort tenants          COISSUE_WEIGHT\n"
                            "  --hold-cap TIME    longest hold                             COISSUE_HOLD_CAP_US\n"
                            "  --window N         launches in flight                       COISSUE_WINDOW\n"
                            "  --policy NAME      scheduling policy                        COISSUE_POLICY\n"
                            "  --coalesce on|off  make one launch of several of a kernel   COISSUE_COALESCE\n"
                            "  --packs N          such launches in flight                  COISSUE_PACKS\n"
                            "  --trace FILE       trace for ui.perfetto.dev                COISSUE_TRACE\n"
                            "  --summary          print a table at exit                    COISSUE_SUMMARY\n"
                            "  --log LEVEL        off, error, warn, info, debug or trace   COISSUE_LOG\n"
                            "  --log-file FILE    log lines to this file                   COISSUE_LOG_FILE\n"
                            "  --library FILE     take this libcoissue.so                  COISSUE_LIBRARY\n"
                            "\n"
                            "A TIME without a unit is in that of the variable. 'coissue config' shows all settings.\n"
                            "In file names %p is the process id, %h the host, %% a percent sign.\n";

enum unit { PLAIN, MILLISECONDS, MICROSECONDS };

struct setting {
    const char *option, *variable;
    enum unit unit;
    const char *value; /* as given; NULL: not */
    char converted[64];
};

/* For one call of config_read: the only variable that exists, and what is wrong with it. */
static const struct setting *checked;
static char wrong[512];

static const char *get_checked(const char *name)
{
    return strcmp(name, checked->variable) == 0 ? (checked->unit ? checked->converted : checked->value) : NULL;
}

/* Of 'COISSUE_MODE: "x" is not one of ...; using full', what stands between the name and the end. */
static void keep_reason(void *arg, const char *message)
{
    const char *begin = strstr(message, ": \""), *end = NULL;

    (void)arg;
    for (const char *at = message; (at = strstr(at, "; using ")); at++)
        end = at;
    begin = begin ? begin + 2 : message;
    snprintf(wrong, sizeof(wrong), "%.*s", (int)(end && end > begin ? end - begin : (long)strlen(begin)), begin);
}

/*
 * "10ms" as the number of milliseconds or microseconds that the variable wants, without floating point: the decimal
 * point moves. A number without a unit is in the variable's own. False: not of that form.
 */
static bool convert_time(struct setting *setting)
{
    static const struct {
        const char *name;
        int power; /* of ten, against a second */
    } units[] = {{"ns", -9}, {"us", -6}, {"ms", -3}, {"s", 0}};
    size_t whole = strspn(setting->value, "0123456789"), fraction = 0, at = 0;
    const char *rest = setting->value + whole, *decimals = NULL;
    int own = setting->unit == MILLISECONDS ? -3 : -6, shift = 0;

    if (*rest == '.') {
        decimals = rest + 1;
        fraction = strspn(decimals, "0123456789");
        rest = decimals + fraction;
    }
    /* 20 digits and 9 zeros fit; longer ones are out of every range or finer than a nanosecond. */
    if (!whole || whole > 20 || fraction > 20 || (decimals && !fraction))
        return false;
    if (*rest) {
        size_t i = 0;

        while (i < array_length(units) && strcmp(rest, units[i].name) != 0)
            i++;
        if (i == array_length(units))
            return false;
        shift = units[i].power - own;
    }
    /* The digits, with the point after `point` of them; zeros where there is no digit. */
    int point = (int)whole + shift, digits = (int)(whole + fraction);

    for (int i = point < 1 ? point - 1 : 0; i < point || i < digits; i++) {
        const char *digit = i < 0 ? "0" : i < (int)whole ? setting->value + i : i < digits ? decimals + i - whole : "0";

        if (i == point)
            setting->converted[at++] = '.';
        setting->converted[at++] = *digit;
    }
    setting->converted[at] = '\0';
    return true;
}

/* Drops zeros that say nothing: the parser counts decimals. */
static void shorten(char *number)
{
    char *end = number + strlen(number);

    if (!strchr(number, '.'))
        return;
    while (end[-1] == '0')
        *--end = '\0';
    if (end[-1] == '.')
        end[-1] = '\0';
}

static bool check_setting(struct setting *setting)
{
    static struct config ignored;

    if (!*setting->value) {
        cli_complain("%s: a value is missing", setting->option);
        return false;
    }
    if (setting->unit) {
        if (!convert_time(setting)) {
            cli_complain("%s: \"%s\" is not a time such as 10ms, 500us or 1.5s", setting->option, setting->value);
            return false;
        }
        shorten(setting->converted);
    }
    checked = setting;
    wrong[0] = '\0';
    config_read(&ignored, get_checked, NULL, keep_reason, NULL);
    if (!wrong[0])
        return true;
    if (!setting->unit) {
        cli_complain("%s: %s", setting->option, wrong);
    } else { /* the value as it was given, rather than as it was converted; neither has a quote in it */
        const char *reason = strrchr(wrong, '"');

        cli_complain("%s: \"%s\" %s, in %s", setting->option, setting->value, reason ? reason + 2 : wrong,
                     setting->unit == MILLISECONDS ? "milliseconds" : "microseconds");
    }
    return false;
}

static bool apply(struct setting *settings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (settings[i].value && !check_setting(&settings[i]))
            return false;
    for (size_t i = 0; i < count; i++)
        if (settings[i].value &&
            !cli_set_variable(settings[i].variable, settings[i].unit ? settings[i].converted : settings[i].value))
            return false;
    return true;
}

int cli_run(int count, char **arguments)
{
    struct setting settings[] = {
        {"--mode", "COISSUE_MODE"},         {"--slo", "COISSUE_SLO_MS", MILLISECONDS},
        {"--weight", "COISSUE_WEIGHT"},     {"--hold-cap", "COISSUE_HOLD_CAP_US", MICROSECONDS},
        {"--window", "COISSUE_WINDOW"},     {"--policy", "COISSUE_POLICY"},
        {"--coalesce", "COISSUE_COALESCE"}, {"--packs", "COISSUE_PACKS"},
        {"--trace", "COISSUE_TRACE"},       {"--log", "COISSUE_LOG"},
        {"--log-file", "COISSUE_LOG_FILE"},
    };
    enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };
    struct cli_option table[SETTINGS + 4] = {0};
    bool help = false, summary = false;
    const char *library = NULL;
    int at;

    for (size_t i = 0; i < SETTINGS; i++)
        table[i] = (struct cli_option){settings[i].option, .value = &settings[i].value};
    table[SETTINGS] = (struct cli_option){"--help", .flag = &help};
    table[SETTINGS + 1] = (struct cli_option){"--summary", .flag = &summary};
    table[SETTINGS + 2] = (struct cli_option){"--library", .value = &library};
    at = cli_options(table, count, arguments);
    if (at < 0)
        return STATUS_USAGE;
    if (help) {
        fputs(usage, stdout);
        return cli_finish_output() ? STATUS_FINE : STATUS_USAGE;
    }
    if (at >= count) {
        cli_complain("the program to run is missing");
        return STATUS_USAGE;
    }
    if (!apply(settings, SETTINGS) || (summary && !cli_set_variable("COISSUE_SUMMARY", "on")) ||
        !cli_add_library(library))
        return STATUS_USAGE;
    unsetenv("COISSUE_LIBRARY");           /* it was for us; the library would report it as unknown */
    execvp(arguments[at], arguments + at); /* only returns if the program cannot be started */
    return cli_cannot_start(arguments[at], errno);
}
