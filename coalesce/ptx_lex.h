/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens of PTX text, with their place in it. Nothing is copied: the rewriter replaces stretches of the text and passes
 * the rest through as it is. White space and both kinds of comments lie between tokens.
 *
 * The text need not end with a NUL. A NUL inside is not PTX: PTX_BAD, and so is everything else that is no token.
 */
#ifndef COISSUE_COALESCE_PTX_LEX_H
#define COISSUE_COALESCE_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>

enum ptx_kind {
    PTX_END,
    PTX_WORD,   /* an identifier, an opcode, a special register: ld %r1 $L__BB0_1 _ */
    PTX_DOT,    /* with the dot: .param .shared::cluster */
    PTX_NUMBER, /* 12 0x1fU 0f3F800000 1.5e-3 */
    PTX_STRING, /* with the quotes */
    PTX_PUNCT,  /* one character */
    PTX_BAD,
};

struct ptx_token {
    enum ptx_kind kind;
    const char *at;
    size_t length;
};

struct ptx_lexer {
    const char *at, *end; /* what is not read yet */
    struct ptx_token now; /* the current token */
};

void ptx_lex_start(struct ptx_lexer *lexer, const char *text, size_t size); /* and reads the first token */
void ptx_lex_next(struct ptx_lexer *lexer);

bool ptx_token_is(const struct ptx_token *token, const char *text); /* its whole text is this */

static inline bool ptx_is(const struct ptx_lexer *lexer, const char *text)
{
    return ptx_token_is(&lexer->now, text);
}

static inline bool ptx_punct(const struct ptx_lexer *lexer, char c)
{
    return lexer->now.kind == PTX_PUNCT && *lexer->now.at == c;
}

/* Whether the text defines the kernel: `.entry name`. */
bool ptx_has_entry(const char *text, size_t size, const char *name);

#endif
