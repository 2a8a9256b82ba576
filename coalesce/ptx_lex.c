/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce/ptx_lex.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* '%' starts words only: an identifier of PTX has it nowhere else. */
static bool is_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static bool is_inner(char c)
{
    return is_digit(c) || (is_start(c) && c != '%');
}

static const char *skip_comment(const char *at, const char *end)
{
    if (at[1] == '/') {
        const char *line = memchr(at, '\n', (size_t)(end - at));

        return line ? line : end;
    }
    for (at += 2; end - at >= 2; at++)
        if (at[0] == '*' && at[1] == '/')
            return at + 2;
    return NULL; /* never closed */
}

/* NULL: an unfinished comment. */
static const char *skip_blank(const char *at, const char *end)
{
    while (at && at < end) {
        if (*at == ' ' || (*at >= '\t' && *at <= '\r'))
            at++;
        else if (*at == '/' && end - at >= 2 && (at[1] == '/' || at[1] == '*'))
            at = skip_comment(at, end);
        else
            break;
    }
    return at;
}

static const char *word_end(const char *at, const char *end)
{
    while (at < end && is_inner(*at))
        at++;
    return at;
}

/* Loose: what is no number to the compiler is passed on to the compiler, which says so. */
static const char *number_end(const char *at, const char *end)
{
    bool decimal = !(end - at >= 2 && at[0] == '0' && is_start(at[1]));

    while (at < end) {
        if (is_inner(*at) || (*at == '.' && decimal))
            at++;
        else if ((*at == '+' || *at == '-') && decimal && (at[-1] == 'e' || at[-1] == 'E'))
            at++;
        else
            break;
    }
    return at;
}

static const char *dot_end(const char *at, const char *end)
{
    at = word_end(at + 1, end);
    while (end - at >= 3 && at[0] == ':' && at[1] == ':' && is_inner(at[2]))
        at = word_end(at + 2, end);
    return at;
}

static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '\n' && *at; at++) {
        if (*at == '"')
            return at + 1;
        if (*at == '\\' && end - at >= 2)
            at++;
    }
    return NULL;
}

static enum ptx_kind scan(const char *at, const char *end, const char **stop)
{
    char c = *at;

    *stop = at + 1;
    if (is_digit(c)) {
        *stop = number_end(at, end);
        return PTX_NUMBER;
    }
    if (is_start(c)) {
        *stop = word_end(at + 1, end);
        return PTX_WORD;
    }
    if (c == '.') {
        *stop = dot_end(at, end);
        return *stop - at > 1 ? PTX_DOT : PTX_BAD;
    }
    if (c == '"') {
        const char *closed = string_end(at, end);

        *stop = closed ? closed : end;
        return closed ? PTX_STRING : PTX_BAD;
    }
    return c && strchr(",;:()[]{}<>=+-!~|&^*/?@", c) ? PTX_PUNCT : PTX_BAD;
}

void ptx_lex_next(struct ptx_lexer *lexer)
{
    const char *at = skip_blank(lexer->at, lexer->end), *stop = lexer->end;

    if (!at)
        lexer->now = (struct ptx_token){PTX_BAD, lexer->at, 0};
    else if (at >= lexer->end)
        lexer->now = (struct ptx_token){PTX_END, lexer->end, 0};
    else {
        lexer->now = (struct ptx_token){scan(at, lexer->end, &stop), at, 0};
        lexer->now.length = (size_t)(stop - at);
    }
    lexer->at = stop;
}

void ptx_lex_start(struct ptx_lexer *lexer, const char *text, size_t size)
{
    *lexer = (struct ptx_lexer){.at = text, .end = text + size};
    ptx_lex_next(lexer);
}

bool ptx_token_is(const struct ptx_token *token, const char *text)
{
    size_t length = strlen(text);

    return token->length == length && memcmp(token->at, text, length) == 0;
}

bool ptx_has_entry(const char *text, size_t size, const char *name)
{
    struct ptx_lexer lexer;

    for (ptx_lex_start(&lexer, text, size); lexer.now.kind != PTX_END && lexer.now.kind != PTX_BAD;) {
        bool entry = lexer.now.kind == PTX_DOT && ptx_is(&lexer, ".entry");

        ptx_lex_next(&lexer);
        if (entry && lexer.now.kind == PTX_WORD && ptx_is(&lexer, name))
            return true;
    }
    return false;
}
