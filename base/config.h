/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of one process, from COISSUE_* variables. See config.def for every row.
 *
 * Reading never fails: a value that cannot be used is reported in one line that names the variable, the value and what
 * is allowed, and the default is taken. A COISSUE_ variable that no row knows is reported too, with the nearest name.
 * No allocation; strings live inside struct config.
 */
#ifndef COISSUE_BASE_CONFIG_H
#define COISSUE_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONFIG_TEXT_MAX = 512 };
typedef char config_text[CONFIG_TEXT_MAX];

/* In the order of the words in config.def. */
enum config_mode { MODE_OFF, MODE_GATE, MODE_FULL };
enum config_broker { BROKER_AUTO, BROKER_OFF, BROKER_REQUIRE };

struct config {
#define WORD(words) unsigned int
#define BOOL() bool
#define UINT(min, max) unsigned int
#define MS(min, max) uint64_t
#define US(min, max) uint64_t
#define PATH() config_text
#define NAME() config_text
#define CONFIG(field, type, variable, initial, help) type field;
#include "base/config.def"
};

/* Called once for each thing that is wrong; `message` is one line without a line feed, valid during the call. */
typedef void (*config_complain_fn)(void *arg, const char *message);

/*
 * Fills all of `config`. `get` is getenv or like it; `environ_list` is searched for unknown COISSUE_ names and may be
 * NULL. Both complain through `complain`, which may be NULL.
 */
void config_read(struct config *config, const char *(*get)(const char *name), char *const *environ_list,
                 config_complain_fn complain, void *arg);

/* One line per row for people (`json` false) or one JSON object: variable, effective value, origin (default or
 * environment), default, range, help. Returns the length that was needed, like snprintf. */
size_t config_print(const struct config *config, const char *(*get)(const char *name), bool json, char *buffer,
                    size_t size);

/* The rows as a Markdown table, for docs/environment.md. Like snprintf. */
size_t config_print_markdown(char *buffer, size_t size);

/* Expands %p, %h and %% of a PATH value into `out`. -ENAMETOOLONG; -EINVAL for an unknown % letter. */
int config_expand_path(const char *template_path, char *out, size_t size);

#endif
