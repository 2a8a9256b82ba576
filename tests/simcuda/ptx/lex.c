/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simcuda/ptx/lex.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* White space and both kinds of comments. An unfinished comment ends with the text. */
static bool skip_blank(struct lexer *lex)
{
    const char *start = lex->at;
    while (lex->at < lex->end) {
        char c = *lex->at;
        if (c == '\n') {
            lex->line++;
            lex->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f') {
            lex->at++;
        } else if (c == '/' && lex->end - lex->at > 1 && lex->at[1] == '/') {
            while (lex->at < lex->end && *lex->at != '\n')
                lex->at++;
        } else if (c == '/' && lex->end - lex->at > 1 && lex->at[1] == '*') {
            lex->at += 2;
            while (lex->at < lex->end && !(lex->end - lex->at > 1 && lex->at[0] == '*' && lex->at[1] == '/')) {
                if (*lex->at++ == '\n')
                    lex->line++;
            }
            lex->at = lex->end - lex->at > 1 ? lex->at + 2 : lex->end;
        } else {
            break;
        }
    }
    return lex->at != start;
}

static void read_hex(struct lexer *lex, struct token *token, unsigned digits_wanted)
{
    unsigned digits = 0;
    uint64_t value = 0;
    int digit;
    while (lex->at < lex->end && (digit = hex_digit(*lex->at)) >= 0 && digits <= 16) {
        value = value << 4 | (uint64_t)digit;
        digits++;
        lex->at++;
    }
    if (digits == 0 || digits > 16 || (digits_wanted && digits != digits_wanted))
        token->kind = TOK_BAD;
    token->value = value;
}

static void read_decimal_float(struct lexer *lex, struct token *token, const char *start)
{
    char buffer[64];
    while (lex->at < lex->end && (is_digit(*lex->at) || *lex->at == '.'))
        lex->at++;
    if (lex->at < lex->end && (*lex->at == 'e' || *lex->at == 'E')) {
        lex->at++;
        if (lex->at < lex->end && (*lex->at == '+' || *lex->at == '-'))
            lex->at++;
        while (lex->at < lex->end && is_digit(*lex->at))
            lex->at++;
    }
    size_t length = (size_t)(lex->at - start);
    token->kind = TOK_BAD;
    if (length >= sizeof(buffer))
        return;
    memcpy(buffer, start, length);
    buffer[length] = '\0';
    /* the program that hosts us may have set a locale with a decimal comma */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return;
    char *stop;
    double value = strtod_l(buffer, &stop, plain);
    freelocale(plain);
    if (*stop != '\0')
        return;
    token->kind = TOK_FLOAT;
    token->width = 0;
    memcpy(&token->value, &value, sizeof(value));
}

static void read_integer(struct lexer *lex, struct token *token, unsigned base)
{
    const char *start = lex->at;
    uint64_t value = 0;
    bool overflow = false;
    while (lex->at < lex->end && is_digit(*lex->at)) {
        unsigned digit = (unsigned)(*lex->at - '0');
        if (digit >= base)
            break;
        overflow |= __builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value);
        lex->at++;
    }
    if (overflow || (lex->at == start && base != 8)) /* "0" alone was eaten by the caller when base is 8 */
        token->kind = TOK_BAD;
    token->value = value;
}

static void read_number(struct lexer *lex, struct token *token)
{
    const char *start = lex->at;
    char next = lex->end - lex->at > 1 ? lex->at[1] : '\0';
    token->kind = TOK_INTEGER;
    if (*start == '0' && (next == 'x' || next == 'X')) {
        lex->at += 2;
        read_hex(lex, token, 0);
    } else if (*start == '0' && (next == 'f' || next == 'F')) {
        lex->at += 2;
        token->kind = TOK_FLOAT;
        token->width = 32;
        read_hex(lex, token, 8);
    } else if (*start == '0' && (next == 'd' || next == 'D')) {
        lex->at += 2;
        token->kind = TOK_FLOAT;
        token->width = 64;
        read_hex(lex, token, 16);
    } else if (*start == '0' && (next == 'b' || next == 'B')) {
        lex->at += 2;
        read_integer(lex, token, 2);
    } else {
        const char *look = start;
        while (look < lex->end && is_digit(*look))
            look++;
        if (look < lex->end && (*look == '.' || *look == 'e' || *look == 'E')) {
            read_decimal_float(lex, token, start);
        } else {
            if (*start == '0')
                lex->at++;
            read_integer(lex, token, *start == '0' ? 8 : 10);
        }
    }
    if (token->kind == TOK_INTEGER && lex->at < lex->end && *lex->at == 'U')
        lex->at++;
    if (lex->at < lex->end && is_word(*lex->at)) { /* 12abc, 09, 0xfg */
        token->kind = TOK_BAD;
        while (lex->at < lex->end && is_word(*lex->at))
            lex->at++;
    }
}

static void read_word(struct lexer *lex)
{
    while (lex->at < lex->end && is_word(*lex->at))
        lex->at++;
}

static void read_dot(struct lexer *lex, struct token *token)
{
    token->kind = TOK_DOT;
    lex->at++;
    token->text.at = lex->at;
    read_word(lex);
    while (lex->end - lex->at > 2 && lex->at[0] == ':' && lex->at[1] == ':' && is_word(lex->at[2])) {
        lex->at += 2;
        read_word(lex);
    }
    if (lex->at == token->text.at)
        token->kind = TOK_BAD;
}

static void read_string(struct lexer *lex, struct token *token)
{
    lex->at++;
    token->text.at = lex->at;
    while (lex->at < lex->end && *lex->at != '"' && *lex->at != '\n')
        lex->at++;
    token->kind = lex->at < lex->end && *lex->at == '"' ? TOK_STRING : TOK_BAD;
}

static void scan(struct lexer *lex)
{
    bool blank = skip_blank(lex);
    struct token token = {.glued = !blank, .line = lex->line, .text = {lex->at, 0}};
    if (lex->at >= lex->end) {
        token.kind = TOK_END;
        lex->now = token;
        return;
    }
    char c = *lex->at;
    bool string = false;
    if (is_digit(c)) {
        read_number(lex, &token);
    } else if (is_word(c)) {
        token.kind = TOK_WORD;
        read_word(lex);
    } else if (c == '.') {
        read_dot(lex, &token);
    } else if (c == '"') {
        read_string(lex, &token);
        string = true;
    } else {
        token.kind = strchr(",;:()[]{}<>=+-!|@*", c) && c != '\0' ? TOK_PUNCT : TOK_BAD;
        token.punct = c;
        lex->at++;
    }
    token.text.length = (size_t)(lex->at - token.text.at);
    if (string && lex->at < lex->end && *lex->at == '"')
        lex->at++;
    lex->now = token;
}

void lex_start(struct lexer *lex, const char *text, size_t length, size_t from, uint32_t line)
{
    *lex = (struct lexer){.text = text, .end = text + length, .at = text + from, .line = line};
    scan(lex);
}

void lex_next(struct lexer *lex)
{
    scan(lex);
}

struct token lex_peek(const struct lexer *lex)
{
    struct lexer copy = *lex;
    scan(&copy);
    return copy.now;
}
