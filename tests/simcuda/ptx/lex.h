/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to words. The lexer never copies: a token is a span of the text. It holds one token; peek looks one further.
 */
#ifndef COISSUE_TESTS_SIMCUDA_PTX_LEX_H
#define COISSUE_TESTS_SIMCUDA_PTX_LEX_H

#include "tests/simcuda/ptx/internal.h"

enum token_kind {
    TOK_END,
    TOK_WORD,    /* letters, digits, _ $ %; starts with no digit */
    TOK_DOT,     /* .word or .word::word; the span is without the first dot */
    TOK_INTEGER, /* value; U suffix accepted */
    TOK_FLOAT,   /* value is the bit pattern; width 32 (0f), 64 (0d) or 0 (decimal, value is a double's pattern) */
    TOK_STRING,  /* span without the quotes */
    TOK_PUNCT,   /* one character */
    TOK_BAD,     /* a character or number that has no place in PTX */
};

struct token {
    enum token_kind kind;
    struct text_span text;
    uint64_t value;
    uint8_t width;
    bool glued; /* no white space before it */
    char punct;
    uint32_t line;
};

struct lexer {
    const char *text, *end, *at;
    uint32_t line;
    struct token now;
};

/* Starts at offset `from` of the text, on line `line`, and reads the first token. */
void lex_start(struct lexer *lex, const char *text, size_t length, size_t from, uint32_t line);
void lex_next(struct lexer *lex);
struct token lex_peek(const struct lexer *lex); /* the token after `now` */

static inline bool span_is(struct text_span span, const char *word)
{
    size_t i = 0;
    for (; i < span.length; i++) {
        if (word[i] == '\0' || word[i] != span.at[i])
            return false;
    }
    return word[i] == '\0';
}

static inline bool lex_is_punct(const struct lexer *lex, char c)
{
    return lex->now.kind == TOK_PUNCT && lex->now.punct == c;
}

static inline bool lex_is_dot(const struct lexer *lex, const char *word)
{
    return lex->now.kind == TOK_DOT && span_is(lex->now.text, word);
}

#endif
