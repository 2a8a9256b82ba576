/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of config.def become one table; everything here works on a row of it, and nothing knows a variable by name.
 */
#include "base/config.h"

#include "base/base.h"
#include "base/text.h"

#include <string.h>
#include <strings.h>

enum row_type { ROW_WORD, ROW_BOOL, ROW_UINT, ROW_MS, ROW_US, ROW_PATH, ROW_NAME };

struct row {
    const char *variable;
    const char *initial;
    const char *help;
    const char *words;  /* "a|b|c" */
    uint64_t low, high; /* in the unit of the variable */
    size_t offset;      /* of the field in struct config */
    enum row_type type;
};

#define WORD(list) .type = ROW_WORD, .words = list
#define BOOL() .type = ROW_BOOL, .words = "on|off"
#define UINT(min, max) .type = ROW_UINT, .low = min, .high = max
#define MS(min, max) .type = ROW_MS, .low = min, .high = max
#define US(min, max) .type = ROW_US, .low = min, .high = max
#define PATH() .type = ROW_PATH
#define NAME() .type = ROW_NAME
#define CONFIG(field, type_and_range, name, value, text)                                                               \
    {.variable = name, .initial = value, .help = text, .offset = offsetof(struct config, field), type_and_range},
static const struct row rows[] = {
#include "base/config.def"
};

enum {
    PREFIX_LENGTH = sizeof("COISSUE_") - 1,
    QUOTE_MAX = 64, /* bytes of a wrong value that are shown */
    MESSAGE_MAX = 512,
    VARIABLE_MAX = 48, /* longer unknown names get no suggestion */
    SUGGEST_MAX = 3,   /* typing errors that still count as "meant" */
};

/* What a value means; `text` is for PATH and NAME and borrowed. */
struct value {
    uint64_t number;
    const char *text;
};

/* Decimals of the unit: a millisecond has 10^6 nanoseconds. 0 for what is no time. */
static unsigned int decimals(const struct row *row)
{
    return row->type == ROW_MS ? 6 : row->type == ROW_US ? 3 : 0;
}

static uint64_t scale(const struct row *row)
{
    return row->type == ROW_MS ? 1000000 : row->type == ROW_US ? 1000 : 1;
}

/* Index of `word` in "a|b|c", in any case; -1 if it is not there. */
static int word_index(const char *words, const char *word)
{
    size_t length = strlen(word);
    int index = 0;

    for (const char *w = words;; index++) {
        size_t end = strcspn(w, "|");

        if (end == length && !strncasecmp(w, word, length))
            return index;
        if (!w[end])
            return -1;
        w += end + 1;
    }
}

static void add_word(struct text *text, const char *words, uint64_t index)
{
    for (; index; index--)
        words += strcspn(words, "|") + 1;
    text_bytes(text, words, strcspn(words, "|"));
}

/* The words with `between` in place of '|', each with `around` on both sides. */
static void add_words(struct text *text, const char *words, const char *between, const char *around)
{
    for (;; words++) {
        size_t length = strcspn(words, "|");

        text_string(text, around);
        text_bytes(text, words, length);
        text_string(text, around);
        words += length;
        if (!*words)
            return;
        text_string(text, between);
    }
}

static void add_range(struct text *text, const struct row *row)
{
    text_unsigned(text, row->low);
    text_string(text, "..");
    text_unsigned(text, row->high);
}

/*
 * The parsers answer true and set `value`, or answer false and add to `why` what is wrong, to follow after the quoted
 * value.
 */
static bool parse_word(const struct row *row, const char *input, struct value *value, struct text *why)
{
    int index = word_index(row->words, input);

    if (index < 0) {
        text_string(why, "is not one of ");
        add_words(why, row->words, ", ", "");
        return false;
    }
    value->number = (uint64_t)index;
    return true;
}

static bool parse_bool(const char *input, struct value *value, struct text *why)
{
    int index = word_index("off|no|false|0|on|yes|true|1", input);

    if (index < 0) {
        text_string(why, "is not on or off");
        return false;
    }
    value->number = index >= 4;
    return true;
}

/* Digits, and for times one point with digits after it. No sign, no space, no exponent, nothing after. */
static bool parse_number(const struct row *row, const char *input, struct value *value, struct text *why)
{
    const char *digits = "0123456789";
    size_t whole = strspn(input, digits), fraction = 0;
    uint64_t most = row->high * scale(row);
    uint64_t number = 0;

    if (decimals(row) && input[whole] == '.')
        fraction = strspn(input + whole + 1, digits);
    if (!whole || input[whole + (fraction ? fraction + 1 : 0)]) {
        text_string(why, row->type == ROW_MS   ? "is not a number of milliseconds"
                         : row->type == ROW_US ? "is not a number of microseconds"
                                               : "is not a whole number");
        return false;
    }
    if (fraction > decimals(row)) {
        text_string(why, "is finer than a nanosecond");
        return false;
    }
    for (size_t i = 0; i < whole && number <= row->high; i++) /* the largest `high` times ten is far from overflow */
        number = number * 10 + (uint64_t)(input[i] - '0');
    for (size_t i = 0; i < decimals(row) && number <= most; i++)
        number = number * 10 + (i < fraction ? (uint64_t)(input[whole + 1 + i] - '0') : 0);
    if (number < row->low * scale(row) || number > most) {
        text_string(why, "is outside ");
        add_range(why, row);
        return false;
    }
    value->number = number;
    return true;
}

static bool parse_text(const struct row *row, const char *input, struct value *value, struct text *why)
{
    if (strlen(input) >= CONFIG_TEXT_MAX) {
        text_string(why, "is longer than ");
        text_unsigned(why, CONFIG_TEXT_MAX - 1);
        text_string(why, " characters");
        return false;
    }
    for (const char *c = input; row->type == ROW_PATH && (c = strchr(c, '%')); c += 2) {
        if (!c[1] || !strchr("ph%", c[1])) {
            text_string(why, "has a % that is not followed by p, h or %");
            return false;
        }
    }
    value->text = input;
    return true;
}

static bool parse(const struct row *row, const char *input, struct value *value, struct text *why)
{
    switch (row->type) {
    case ROW_WORD:
        return parse_word(row, input, value, why);
    case ROW_BOOL:
        return parse_bool(input, value, why);
    case ROW_UINT:
    case ROW_MS:
    case ROW_US:
        return parse_number(row, input, value, why);
    case ROW_PATH:
    case ROW_NAME:
        return parse_text(row, input, value, why);
    }
    return false;
}

static void store(const struct row *row, struct config *config, const struct value *value)
{
    char *field = (char *)config + row->offset;
    unsigned int narrow = (unsigned int)value->number;
    bool truth = value->number;

    switch (row->type) {
    case ROW_WORD:
    case ROW_UINT:
        memcpy(field, &narrow, sizeof(narrow));
        break;
    case ROW_BOOL:
        memcpy(field, &truth, sizeof(truth));
        break;
    case ROW_MS:
    case ROW_US:
        memcpy(field, &value->number, sizeof(value->number));
        break;
    case ROW_PATH:
    case ROW_NAME:
        memcpy(field, value->text, strlen(value->text) + 1);
        break;
    }
}

static void load(const struct row *row, const struct config *config, struct value *value)
{
    const char *field = (const char *)config + row->offset;
    unsigned int narrow;
    bool truth;

    *value = (struct value){.text = field};
    switch (row->type) {
    case ROW_WORD:
    case ROW_UINT:
        memcpy(&narrow, field, sizeof(narrow));
        value->number = narrow;
        break;
    case ROW_BOOL:
        memcpy(&truth, field, sizeof(truth));
        value->number = truth;
        break;
    case ROW_MS:
    case ROW_US:
        memcpy(&value->number, field, sizeof(value->number));
        break;
    case ROW_PATH:
    case ROW_NAME:
        break;
    }
}

/* What the user set, or NULL. A variable that is set to nothing counts as not set, as shell scripts expect. */
static const char *get_input(const struct row *row, const char *(*get)(const char *name))
{
    const char *input = get ? get(row->variable) : NULL;

    return input && *input ? input : NULL;
}

static void complain_value(const struct row *row, const char *input, const char *why, config_complain_fn complain,
                           void *arg)
{
    char message[MESSAGE_MAX];
    struct text text;

    text_init(&text, message, sizeof(message));
    text_string(&text, row->variable);
    text_string(&text, ": \"");
    text_clean(&text, input, QUOTE_MAX);
    text_string(&text, "\" ");
    text_string(&text, why);
    text_string(&text, "; using ");
    text_string(&text, *row->initial ? row->initial : "none");
    text_end(&text);
    complain(arg, message);
}

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Levenshtein's distance: letters to insert, drop or replace. One row of the matrix is kept. */
static size_t distance(const char *a, const char *b)
{
    size_t line[VARIABLE_MAX + 1];
    size_t length = strlen(b);

    for (size_t j = 0; j <= length; j++)
        line[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = line[0];

        line[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t above = line[j];

            line[j] = smallest(above + 1, line[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return line[length];
}

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; i < array_length(rows); i++)
        if (!strcmp(rows[i].variable, name))
            return &rows[i];
    return NULL;
}

/* The variable that was meant. Half of the letters after the prefix may be wrong, and SUGGEST_MAX at most. */
static const struct row *nearest_row(const char *name)
{
    size_t best = SUGGEST_MAX + 1;
    const struct row *nearest = NULL;

    for (size_t i = 0; i < array_length(rows); i++) {
        size_t away = distance(name, rows[i].variable);

        if (away < best && 2 * away <= strlen(rows[i].variable) - PREFIX_LENGTH) {
            best = away;
            nearest = &rows[i];
        }
    }
    return nearest;
}

static void check_name(const char *entry, config_complain_fn complain, void *arg)
{
    char name[VARIABLE_MAX + 1], message[MESSAGE_MAX];
    size_t length = strcspn(entry, "=");
    bool whole = length <= VARIABLE_MAX;
    const struct row *meant;
    struct text text;

    length = whole ? length : VARIABLE_MAX;
    memcpy(name, entry, length);
    name[length] = '\0';
    if (whole && find_row(name))
        return;
    meant = whole ? nearest_row(name) : NULL;
    text_init(&text, message, sizeof(message));
    text_clean(&text, name, sizeof(name));
    text_string(&text, whole ? ": unknown variable" : "...: unknown variable");
    if (meant) {
        text_string(&text, "; did you mean ");
        text_string(&text, meant->variable);
        text_char(&text, '?');
    }
    text_end(&text);
    complain(arg, message);
}

void config_read(struct config *config, const char *(*get)(const char *name), char *const *environ_list,
                 config_complain_fn complain, void *arg)
{
    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < array_length(rows); i++) {
        const char *input = get_input(&rows[i], get);
        char reason[MESSAGE_MAX / 2];
        struct value value = {0};
        struct text why;

        text_init(&why, reason, sizeof(reason));
        if (!input || !parse(&rows[i], input, &value, &why)) {
            text_end(&why);
            if (input && complain)
                complain_value(&rows[i], input, reason, complain, arg);
            parse(&rows[i], rows[i].initial, &value, &why); /* a test makes sure that this cannot fail */
        }
        store(&rows[i], config, &value);
    }
    for (; complain && environ_list && *environ_list; environ_list++)
        if (!strncmp(*environ_list, "COISSUE_", PREFIX_LENGTH))
            check_name(*environ_list, complain, arg);
}

static void add_value(struct text *text, const struct row *row, const struct value *value)
{
    switch (row->type) {
    case ROW_WORD:
        add_word(text, row->words, value->number);
        break;
    case ROW_BOOL:
        text_string(text, value->number ? "on" : "off");
        break;
    case ROW_UINT:
    case ROW_MS:
    case ROW_US:
        text_decimal_short(text, value->number, decimals(row));
        break;
    case ROW_PATH:
    case ROW_NAME:
        text_string(text, value->text);
        break;
    }
}

/* What is allowed, for people. */
static void add_allowed(struct text *text, const struct row *row)
{
    switch (row->type) {
    case ROW_WORD:
    case ROW_BOOL:
        add_words(text, row->words, "|", "");
        break;
    case ROW_UINT:
    case ROW_MS:
    case ROW_US:
        add_range(text, row);
        break;
    case ROW_PATH:
        text_string(text, "path");
        break;
    case ROW_NAME:
        text_string(text, "name");
        break;
    }
}

static bool from_environment(const struct row *row, const char *(*get)(const char *name))
{
    const char *input = get_input(row, get);
    struct text ignored = {0};
    struct value value;

    return input && parse(row, input, &value, &ignored);
}

/* Quoted for a POSIX shell if it needs to be, so that the lines can be pasted into a script. */
static void add_shell_word(struct text *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./%:,+-=@";

    if (!word[strspn(word, plain)]) {
        text_string(text, word);
        return;
    }
    text_char(text, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            text_string(text, "'\\''");
        else
            text_char(text, *word);
    }
    text_char(text, '\'');
}

static void print_line(struct text *text, const struct row *row, const struct value *value, bool set)
{
    size_t begin = text->length;

    text_string(text, row->variable);
    text_char(text, '=');
    if (row->type == ROW_PATH || row->type == ROW_NAME)
        add_shell_word(text, value->text);
    else
        add_value(text, row, value);
    text_pad(text, begin, 32);
    text_string(text, set ? " # environment; default " : " # default ");
    text_string(text, *row->initial ? row->initial : "none");
    text_string(text, "; ");
    add_allowed(text, row);
    text_string(text, "; ");
    text_string(text, row->help);
    text_char(text, '\n');
}

static void add_json_value(struct text *text, const struct row *row, const struct value *value)
{
    char word[CONFIG_TEXT_MAX];
    struct text plain;

    text_init(&plain, word, sizeof(word));
    add_value(&plain, row, value);
    text_end(&plain);
    if (row->type == ROW_BOOL)
        text_string(text, value->number ? "true" : "false");
    else if (row->type == ROW_UINT || row->type == ROW_MS || row->type == ROW_US)
        text_string(text, word);
    else
        text_json(text, word, SIZE_MAX);
}

static void print_json(struct text *text, const struct row *row, const struct value *value, bool set)
{
    char allowed[MESSAGE_MAX];
    struct value initial = {0};
    struct text plain = {0};

    parse(row, row->initial, &initial, &plain);
    text_init(&plain, allowed, sizeof(allowed));
    add_allowed(&plain, row);
    text_end(&plain);
    text_string(text, "  ");
    text_json(text, row->variable, SIZE_MAX);
    text_string(text, ": {\"value\": ");
    add_json_value(text, row, value);
    text_string(text, ", \"origin\": ");
    text_string(text, set ? "\"environment\"" : "\"default\"");
    text_string(text, ", \"default\": ");
    add_json_value(text, row, &initial);
    text_string(text, ", \"range\": ");
    text_json(text, allowed, SIZE_MAX);
    text_string(text, ", \"help\": ");
    text_json(text, row->help, SIZE_MAX);
    text_char(text, '}');
}

size_t config_print(const struct config *config, const char *(*get)(const char *name), bool json, char *buffer,
                    size_t size)
{
    struct text text;

    text_init(&text, buffer, size);
    if (json)
        text_string(&text, "{\n");
    for (size_t i = 0; i < array_length(rows); i++) {
        bool set = from_environment(&rows[i], get);
        struct value value;

        load(&rows[i], config, &value);
        if (json) {
            text_string(&text, i ? ",\n" : "");
            print_json(&text, &rows[i], &value, set);
        } else {
            print_line(&text, &rows[i], &value, set);
        }
    }
    if (json)
        text_string(&text, "\n}\n");
    return text_end(&text);
}

static void markdown_allowed(struct text *text, const struct row *row)
{
    if (row->type == ROW_WORD || row->type == ROW_BOOL) {
        add_words(text, row->words, ", ", "`");
        return;
    }
    add_allowed(text, row);
    text_string(text, row->type == ROW_MS ? " ms" : row->type == ROW_US ? " us" : "");
}

size_t config_print_markdown(char *buffer, size_t size)
{
    static const char top[] =
        "<!-- Written by config_print_markdown from base/config.def. Change that file, not this one. -->\n"
        "# Environment variables\n"
        "\n"
        "coissue is set up by environment variables of the process that it is loaded into, read once, when the "
        "process\n"
        "first uses CUDA. A variable that is set to nothing counts as not set. A value that cannot be used is reported "
        "in\n"
        "one line and the default is taken. A variable that begins with `COISSUE_` and is not listed here is reported\n"
        "too. Times may have a fraction, down to a nanosecond; words may be written in any case; `yes`, `true` and "
        "`1`\n"
        "are `on`, `no`, `false` and `0` are `off`. In programs that run with the rights of somebody else "
        "(set-user-ID),\n"
        "all of them are ignored.\n"
        "\n"
        "In a path, `%p` is the process id, `%h` the name of the host and `%%` a percent sign. Missing folders are "
        "made.\n"
        "\n"
        "| Variable | Values | Default | Meaning |\n"
        "|---|---|---|---|\n";
    struct text text;

    text_init(&text, buffer, size);
    text_string(&text, top);
    for (size_t i = 0; i < array_length(rows); i++) {
        text_string(&text, "| `");
        text_string(&text, rows[i].variable);
        text_string(&text, "` | ");
        markdown_allowed(&text, &rows[i]);
        text_string(&text, " | ");
        text_string(&text, *rows[i].initial ? "`" : "none");
        text_string(&text, rows[i].initial);
        text_string(&text, *rows[i].initial ? "`" : "");
        text_string(&text, " | ");
        text_string(&text, rows[i].help);
        text_string(&text, " |\n");
    }
    return text_end(&text);
}
