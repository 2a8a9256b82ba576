/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading, checking and printing of COISSUE_* variables.
 */
#include "base/config.h"

#include "base/base.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAID_MAX = 8 };

static char said[SAID_MAX][600];
static int said_count;

static void hear(void *arg, const char *message)
{
    cr_assert(eq(ptr, arg, said));
    cr_assert(lt(int, said_count, SAID_MAX));
    snprintf(said[said_count++], sizeof(said[0]), "%s", message);
}

static const char *get_nothing(const char *name)
{
    return NULL;
}

static const char *get_real(const char *name)
{
    return getenv(name);
}

static void expect_part(const char *whole, const char *part)
{
    cr_assert(ne(ptr, strstr(whole, part), NULL), "\"%s\" is not in:\n%s", part, whole);
}

/* One variable is set. */
static const char *set_name, *set_value;

static const char *get_one(const char *name)
{
    return set_name && !strcmp(name, set_name) ? set_value : NULL;
}

static struct config read_one(const char *name, const char *value)
{
    struct config config;

    set_name = name;
    set_value = value;
    said_count = 0;
    memset(&config, 0xa5, sizeof(config));
    config_read(&config, get_one, NULL, hear, said);
    return config;
}

Test(config, without_variables_every_field_has_its_default_and_nothing_is_said)
{
    struct config config;

    memset(&config, 0xa5, sizeof(config));
    config_read(&config, get_nothing, NULL, hear, said);
    cr_assert(eq(int, said_count, 0));
    cr_assert(eq(uint, config.mode, MODE_FULL));
    cr_assert(eq(u64, config.slo_ns, 0));
    cr_assert(eq(uint, config.weight, 100));
    cr_assert(eq(u64, config.hold_cap_ns, 1000000));
    cr_assert(eq(uint, config.window, 16));
    cr_assert(eq(str, config.policy, ""));
    cr_assert(eq(u64, config.spin_ns, 200000));
    cr_assert(eq(str, config.trace, ""));
    cr_assert(eq(u64, config.trace_flush_ns, 100000000));
    cr_assert(not(config.summary));
    cr_assert(eq(uint, config.log_level, 2));
    cr_assert(eq(str, config.log_file, ""));
    cr_assert(not(config.disable));
}

Test(config, every_default_of_the_table_is_a_valid_value_of_its_variable)
{
    static const char *const variables[][2] = {
#define CONFIG(field, type, variable, initial, help) {variable, initial},
#define WORD(words)
#define BOOL()
#define UINT(min, max)
#define MS(min, max)
#define US(min, max)
#define PATH()
#define NAME()
#include "base/config.def"
    };

    for (size_t i = 0; i < array_length(variables); i++) {
        read_one(variables[i][0], variables[i][1]);
        cr_assert(eq(int, said_count, 0), "%s: %s", variables[i][0], said[0]);
    }
}

Test(config, good_values_are_taken_exactly)
{
    cr_assert(eq(uint, read_one("COISSUE_MODE", "gate").mode, MODE_GATE));
    cr_assert(eq(uint, read_one("COISSUE_MODE", "OFF").mode, MODE_OFF));
    cr_assert(eq(uint, read_one("COISSUE_WINDOW", "1").window, 1));
    cr_assert(eq(uint, read_one("COISSUE_WINDOW", "256").window, 256));
    cr_assert(eq(uint, read_one("COISSUE_WINDOW", "0000000000000000000000000000008").window, 8));
    cr_assert(eq(u64, read_one("COISSUE_SLO_MS", "0.000001").slo_ns, 1));
    cr_assert(eq(u64, read_one("COISSUE_SLO_MS", "12.5").slo_ns, 12500000));
    cr_assert(eq(u64, read_one("COISSUE_SLO_MS", "3600000").slo_ns, 3600000000000));
    cr_assert(eq(u64, read_one("COISSUE_SLO_MS", "3600000.000000").slo_ns, 3600000000000));
    cr_assert(eq(u64, read_one("COISSUE_HOLD_CAP_US", "0").hold_cap_ns, 0));
    cr_assert(eq(u64, read_one("COISSUE_HOLD_CAP_US", "1.001").hold_cap_ns, 1001));
    cr_assert(eq(str, read_one("COISSUE_TRACE", "/tmp/%h/%p%%.json").trace, "/tmp/%h/%p%%.json"));
    cr_assert(eq(str, read_one("COISSUE_POLICY", "50% of it").policy, "50% of it"));
    cr_assert(eq(int, said_count, 0));
}

Test(config, booleans_take_the_usual_words_in_any_case)
{
    static const char *const on[] = {"on", "yes", "true", "1", "On", "TRUE"};
    static const char *const off[] = {"off", "no", "false", "0", "OFF", "No"};

    for (size_t i = 0; i < array_length(on); i++)
        cr_assert(read_one("COISSUE_SUMMARY", on[i]).summary, "%s", on[i]);
    for (size_t i = 0; i < array_length(off); i++)
        cr_assert(not(read_one("COISSUE_DISABLE", off[i]).disable), "%s", off[i]);
    cr_assert(eq(int, said_count, 0));
}

Test(config, a_variable_set_to_nothing_counts_as_not_set)
{
    cr_assert(eq(uint, read_one("COISSUE_MODE", "").mode, MODE_FULL));
    cr_assert(eq(uint, read_one("COISSUE_WINDOW", "").window, 16));
    cr_assert(eq(int, said_count, 0));
}

#define SIXTY_FOUR "0123456789012345678901234567890123456789012345678901234567890123"

static const struct {
    const char *variable, *value, *line;
} bad_values[] = {
    {"COISSUE_MODE", "fast", "COISSUE_MODE: \"fast\" is not one of off, gate, full; using full"},
    {"COISSUE_MODE", "ful", "COISSUE_MODE: \"ful\" is not one of off, gate, full; using full"},
    {"COISSUE_MODE", "fulll", "COISSUE_MODE: \"fulll\" is not one of off, gate, full; using full"},
    {"COISSUE_MODE", "gate|full", "COISSUE_MODE: \"gate|full\" is not one of off, gate, full; using full"},
    {"COISSUE_MODE", "1", "COISSUE_MODE: \"1\" is not one of off, gate, full; using full"},
    {"COISSUE_MODE", " full", "COISSUE_MODE: \" full\" is not one of off, gate, full; using full"},
    {"COISSUE_LOG", "verbose",
     "COISSUE_LOG: \"verbose\" is not one of off, error, warn, info, debug, trace; using warn"},
    {"COISSUE_WINDOW", "0", "COISSUE_WINDOW: \"0\" is outside 1..256; using 16"},
    {"COISSUE_WINDOW", "257", "COISSUE_WINDOW: \"257\" is outside 1..256; using 16"},
    {"COISSUE_WINDOW", "4294967297", "COISSUE_WINDOW: \"4294967297\" is outside 1..256; using 16"},
    {"COISSUE_WINDOW", "18446744073709551617", "COISSUE_WINDOW: \"18446744073709551617\" is outside 1..256; using 16"},
    {"COISSUE_WINDOW", "-1", "COISSUE_WINDOW: \"-1\" is not a whole number; using 16"},
    {"COISSUE_WINDOW", "+1", "COISSUE_WINDOW: \"+1\" is not a whole number; using 16"},
    {"COISSUE_WINDOW", "1.5", "COISSUE_WINDOW: \"1.5\" is not a whole number; using 16"},
    {"COISSUE_WINDOW", "0x10", "COISSUE_WINDOW: \"0x10\" is not a whole number; using 16"},
    {"COISSUE_WINDOW", "16k", "COISSUE_WINDOW: \"16k\" is not a whole number; using 16"},
    {"COISSUE_WINDOW", "1 6", "COISSUE_WINDOW: \"1 6\" is not a whole number; using 16"},
    {"COISSUE_WINDOW", " ", "COISSUE_WINDOW: \" \" is not a whole number; using 16"},
    {"COISSUE_SLO_MS", "10ms", "COISSUE_SLO_MS: \"10ms\" is not a number of milliseconds; using 0"},
    {"COISSUE_SLO_MS", "1e3", "COISSUE_SLO_MS: \"1e3\" is not a number of milliseconds; using 0"},
    {"COISSUE_SLO_MS", "1,5", "COISSUE_SLO_MS: \"1,5\" is not a number of milliseconds; using 0"},
    {"COISSUE_SLO_MS", "1.", "COISSUE_SLO_MS: \"1.\" is not a number of milliseconds; using 0"},
    {"COISSUE_SLO_MS", ".5", "COISSUE_SLO_MS: \".5\" is not a number of milliseconds; using 0"},
    {"COISSUE_SLO_MS", "1.2.3", "COISSUE_SLO_MS: \"1.2.3\" is not a number of milliseconds; using 0"},
    {"COISSUE_SLO_MS", "nan", "COISSUE_SLO_MS: \"nan\" is not a number of milliseconds; using 0"},
    {"COISSUE_SLO_MS", "-0.5", "COISSUE_SLO_MS: \"-0.5\" is not a number of milliseconds; using 0"},
    {"COISSUE_SLO_MS", "0.0000001", "COISSUE_SLO_MS: \"0.0000001\" is finer than a nanosecond; using 0"},
    {"COISSUE_SLO_MS", "3600000.000001", "COISSUE_SLO_MS: \"3600000.000001\" is outside 0..3600000; using 0"},
    {"COISSUE_SLO_MS", "99999999999999999999.5",
     "COISSUE_SLO_MS: \"99999999999999999999.5\" is outside 0..3600000; using 0"},
    {"COISSUE_HOLD_CAP_US", "soon", "COISSUE_HOLD_CAP_US: \"soon\" is not a number of microseconds; using 1000"},
    {"COISSUE_HOLD_CAP_US", "0.0001", "COISSUE_HOLD_CAP_US: \"0.0001\" is finer than a nanosecond; using 1000"},
    {"COISSUE_HOLD_CAP_US", "1000001", "COISSUE_HOLD_CAP_US: \"1000001\" is outside 0..1000000; using 1000"},
    {"COISSUE_TRACE_FLUSH_MS", "0.999", "COISSUE_TRACE_FLUSH_MS: \"0.999\" is outside 1..60000; using 100"},
    {"COISSUE_SUMMARY", "maybe", "COISSUE_SUMMARY: \"maybe\" is not on or off; using off"},
    {"COISSUE_SUMMARY", "2", "COISSUE_SUMMARY: \"2\" is not on or off; using off"},
    {"COISSUE_TRACE", "/tmp/%q", "COISSUE_TRACE: \"/tmp/%q\" has a % that is not followed by p, h or %; using none"},
    {"COISSUE_TRACE", "/tmp/%%%", "COISSUE_TRACE: \"/tmp/%%%\" has a % that is not followed by p, h or %; using none"},
    {"COISSUE_MODE", "a\nb\x1b[31m\x7f", "COISSUE_MODE: \"a?b?[31m?\" is not one of off, gate, full; using full"},
    {"COISSUE_MODE", "\xff\xc3", "COISSUE_MODE: \"?\?\" is not one of off, gate, full; using full"},
    {"COISSUE_MODE", "s\xc3\xbc\xc3\x9f",
     "COISSUE_MODE: \"s\xc3\xbc\xc3\x9f\" is not one of off, gate, full; using full"},
    {"COISSUE_MODE", SIXTY_FOUR, "COISSUE_MODE: \"" SIXTY_FOUR "\" is not one of off, gate, full; using full"},
    {"COISSUE_MODE", SIXTY_FOUR "4", "COISSUE_MODE: \"" SIXTY_FOUR "...\" is not one of off, gate, full; using full"},
};

Test(config, a_bad_value_is_reported_in_one_exact_line_and_replaced_by_the_default)
{
    struct config initial;

    config_read(&initial, get_nothing, NULL, NULL, NULL);
    for (size_t i = 0; i < array_length(bad_values); i++) {
        struct config config = read_one(bad_values[i].variable, bad_values[i].value);

        cr_expect(eq(int, said_count, 1), "row %zu", i);
        cr_expect(eq(str, said[0], (char *)bad_values[i].line));
        cr_expect(eq(int, memcmp(&config, &initial, sizeof(config)), 0), "row %zu", i);
    }
}

Test(config, a_text_that_is_too_long_is_refused_and_one_that_just_fits_is_taken)
{
    char value[CONFIG_TEXT_MAX + 1];
    struct config config;

    memset(value, 'x', sizeof(value));
    value[CONFIG_TEXT_MAX - 1] = '\0';
    config = read_one("COISSUE_TRACE", value);
    cr_assert(eq(str, config.trace, value));
    cr_assert(eq(int, said_count, 0));

    value[CONFIG_TEXT_MAX - 1] = 'x';
    value[CONFIG_TEXT_MAX] = '\0';
    config = read_one("COISSUE_TRACE", value);
    cr_assert(eq(str, config.trace, ""));
    cr_assert(eq(int, said_count, 1));
    expect_part(said[0], "...\" is longer than 511 characters; using none");
}

Test(config, random_bytes_never_pass_as_a_number_or_overrun_the_message)
{
    char value[700];

    srand(1);
    for (int round = 0; round < 20000; round++) {
        size_t length = (size_t)rand() % (round % 100 ? 40 : sizeof(value));
        struct config config;

        for (size_t i = 0; i < length; i++)
            value[i] = (char)(1 + rand() % 255);
        value[0] = 'z';
        value[length] = '\0';
        config = read_one(round % 2 ? "COISSUE_SLO_MS" : "COISSUE_WINDOW", value);
        cr_assert(eq(int, said_count, length > 0));
        cr_assert(eq(uint, config.window, 16));
        cr_assert(eq(u64, config.slo_ns, 0));
        for (const char *c = said[0]; *c; c++)
            cr_assert(all(ge(int, (unsigned char)*c, ' '), ne(int, *c, 127)));
    }
}

static void read_names(char *const *names)
{
    struct config config;

    said_count = 0;
    config_read(&config, get_nothing, names, hear, said);
}

Test(config, an_unknown_variable_is_reported_with_the_one_that_was_probably_meant)
{
    char *names[] = {"COISSUE_MOED=gate", "PATH=/bin",          "COISSUE_WINDW=3", "COISSUE_MODE=full",
                     "COISSUE_SLO=5",     "COISSUE_ELEPHANT=1", "COISSUE_",        NULL};

    read_names(names);
    cr_assert(eq(int, said_count, 5));
    cr_assert(eq(str, said[0], "COISSUE_MOED: unknown variable; did you mean COISSUE_MODE?"));
    cr_assert(eq(str, said[1], "COISSUE_WINDW: unknown variable; did you mean COISSUE_WINDOW?"));
    cr_assert(eq(str, said[2], "COISSUE_SLO: unknown variable; did you mean COISSUE_SLO_MS?"));
    cr_assert(eq(str, said[3], "COISSUE_ELEPHANT: unknown variable"));
    cr_assert(eq(str, said[4], "COISSUE_: unknown variable"));
}

Test(config, an_unknown_name_may_be_hostile)
{
    char long_name[5000] = "COISSUE_";
    char *names[] = {"COISSUE_M\nODE=1", "COISSUE_NO_EQUALS_SIGN", long_name, NULL};

    memset(long_name + 8, 'X', sizeof(long_name) - 9);
    read_names(names);
    cr_assert(eq(int, said_count, 3));
    cr_assert(eq(str, said[0], "COISSUE_M?ODE: unknown variable; did you mean COISSUE_MODE?"));
    cr_assert(eq(str, said[1], "COISSUE_NO_EQUALS_SIGN: unknown variable"));
    cr_assert(eq(str, said[2], "COISSUE_XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX...: unknown variable"));
}

Test(config, bad_values_without_anybody_to_hear_of_them_are_defaults)
{
    struct config config;
    char *names[] = {"COISSUE_NOPE=1", NULL};

    set_name = "COISSUE_WINDOW";
    set_value = "none";
    config_read(&config, get_one, names, NULL, NULL);
    cr_assert(eq(uint, config.window, 16));
}

Test(config, the_printed_json_parses_and_holds_values_origins_and_defaults)
{
    char buffer[16384];
    struct config config = read_one("COISSUE_POLICY", "a \"b\"\\\n\x01");
    size_t length = config_print(&config, get_one, true, buffer, sizeof(buffer));
    json_error_t error;
    json_t *root = json_loads(buffer, JSON_REJECT_DUPLICATES, &error);
    const char *value, *origin, *initial, *range;
    double window;

    cr_assert(lt(sz, length, sizeof(buffer)));
    cr_assert(ne(ptr, root, NULL), "%s line %d", error.text, error.line);
    cr_assert(eq(sz, json_object_size(root), 21));
    cr_assert(eq(int,
                 json_unpack(root, "{s:{s:s,s:s,s:s}}", "COISSUE_POLICY", "value", &value, "origin", &origin, "default",
                             &initial),
                 0));
    cr_assert(eq(str, (char *)value, config.policy));
    cr_assert(eq(str, (char *)origin, "environment"));
    cr_assert(eq(str, (char *)initial, ""));
    cr_assert(eq(
        int,
        json_unpack(root, "{s:{s:F,s:s,s:s}}", "COISSUE_WINDOW", "value", &window, "origin", &origin, "range", &range),
        0));
    cr_assert(eq(dbl, window, 16));
    cr_assert(eq(str, (char *)origin, "default"));
    cr_assert(eq(str, (char *)range, "1..256"));
    json_decref(root);
}

Test(config, a_value_that_was_refused_is_printed_as_default)
{
    char buffer[16384];
    struct config config = read_one("COISSUE_WINDOW", "1000");

    config_print(&config, get_one, false, buffer, sizeof(buffer));
    expect_part(buffer, "COISSUE_WINDOW=16                # default 16; 1..256; ");
}

Test(config, the_printed_lines_can_be_read_by_a_shell_and_give_the_same_configuration)
{
    char buffer[16384];
    FILE *shell;
    struct config before, after;

    setenv("COISSUE_POLICY", "it's $HOME `odd`", 1);
    setenv("COISSUE_SLO_MS", "7.25", 1);
    setenv("COISSUE_SUMMARY", "yes", 1);
    setenv("COISSUE_TRACE", "/tmp/a b/%p.json", 1);
    config_read(&before, get_real, NULL, NULL, NULL);
    config_print(&before, get_real, false, buffer, sizeof(buffer));
    expect_part(buffer, "COISSUE_SLO_MS=7.25              # environment; default 0; 0..3600000; ");

    shell =
        popen("cat > /dev/shm/coissue-config-$PPID.sh; . /dev/shm/coissue-config-$PPID.sh; "
              "rm /dev/shm/coissue-config-$PPID.sh; "
              "test \"$COISSUE_POLICY\" = \"it's \\$HOME \\`odd\\`\" && test \"$COISSUE_TRACE\" = '/tmp/a b/%p.json'",
              "w");
    cr_assert(ne(ptr, shell, NULL));
    fputs(buffer, shell);
    cr_assert(eq(int, pclose(shell), 0));
    config_read(&after, get_real, NULL, NULL, NULL);
    cr_assert(eq(int, memcmp(&before, &after, sizeof(before)), 0));
}

Test(config, printing_into_a_small_buffer_ends_in_nul_and_tells_the_length_needed)
{
    char whole[16384], part[100];
    struct config config = read_one(NULL, NULL);
    size_t length = config_print(&config, get_nothing, false, whole, sizeof(whole));

    memset(part, 'x', sizeof(part));
    cr_assert(eq(sz, length, strlen(whole)));
    cr_assert(eq(sz, config_print(&config, get_nothing, false, part, 10), length));
    cr_assert(eq(sz, strlen(part), 9));
    cr_assert(eq(chr, part[10], 'x'));
    cr_assert(eq(sz, config_print(&config, get_nothing, false, NULL, 0), length));
    cr_assert(eq(sz, config_print_markdown(NULL, 0), config_print_markdown(whole, sizeof(whole))));
}

Test(path_template, process_host_and_percent_are_expanded)
{
    char host[256], expected[600], out[600];

    cr_assert(eq(int, gethostname(host, sizeof(host)), 0));
    snprintf(expected, sizeof(expected), "/x/%d.%s.100%%", (int)getpid(), host);
    for (char *c = expected + 3; *c; c++)
        if (*c == '/')
            *c = '_';
    cr_assert(eq(int, config_expand_path("/x/%p.%h.100%%", out, sizeof(out)), 0));
    cr_assert(eq(str, out, expected));
}

Test(path_template, what_cannot_be_expanded_leaves_the_output_alone)
{
    char out[8] = "before";

    cr_assert(eq(int, config_expand_path("a%z", out, sizeof(out)), -EINVAL));
    cr_assert(eq(int, config_expand_path("a%", out, sizeof(out)), -EINVAL));
    cr_assert(eq(int, config_expand_path("12345678", out, sizeof(out)), -ENAMETOOLONG));
    cr_assert(eq(str, out, "before"));
    cr_assert(eq(int, config_expand_path("1234567", out, sizeof(out)), 0));
    cr_assert(eq(str, out, "1234567"));
}
