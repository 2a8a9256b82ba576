/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce/ptx_walk.h"

#include <errno.h>

void ptx_walk_start(struct ptx_walk *walk, const char *body, const char *end)
{
    ptx_lex_start(&walk->lexer, body, (size_t)(end - body));
    walk->depth = 0;
    walk->now.kind = PTX_STATEMENT_BRACE;
}

static int unexpected(const struct ptx_walk *walk)
{
    return walk->lexer.now.kind == PTX_END || walk->lexer.now.kind == PTX_BAD ? -EINVAL : -ENOTSUP;
}

/* Gathers tokens up to the semicolon and steps over it. */
static int gather(struct ptx_walk *walk, enum ptx_statement_kind kind)
{
    struct ptx_statement *now = &walk->now;

    now->kind = kind;
    while (!ptx_punct(&walk->lexer, ';')) {
        if (walk->lexer.now.kind == PTX_END || walk->lexer.now.kind == PTX_BAD)
            return -EINVAL;
        if (now->count == PTX_TOKENS_MAX)
            return -ENOTSUP;
        now->tokens[now->count++] = walk->lexer.now;
        ptx_lex_next(&walk->lexer);
    }
    now->end = walk->lexer.now.at + 1;
    ptx_lex_next(&walk->lexer);
    return 0;
}

static bool take_number(struct ptx_walk *walk)
{
    if (walk->lexer.now.kind != PTX_NUMBER)
        return false;
    walk->now.end = walk->lexer.now.at + walk->lexer.now.length;
    ptx_lex_next(&walk->lexer);
    return true;
}

/*
 * .loc file line column [, function_name label [+ n] [, inlined_at file line column]]: the one statement without a
 * semicolon.
 */
static int read_line(struct ptx_walk *walk)
{
    walk->now.kind = PTX_STATEMENT_LINE;
    ptx_lex_next(&walk->lexer);
    for (int i = 0; i < 3; i++)
        if (!take_number(walk))
            return unexpected(walk);
    while (ptx_punct(&walk->lexer, ',')) {
        ptx_lex_next(&walk->lexer);
        if (ptx_is(&walk->lexer, "function_name")) {
            ptx_lex_next(&walk->lexer);
            if (walk->lexer.now.kind != PTX_WORD)
                return unexpected(walk);
            walk->now.end = walk->lexer.now.at + walk->lexer.now.length;
            ptx_lex_next(&walk->lexer);
            if (ptx_punct(&walk->lexer, '+')) {
                ptx_lex_next(&walk->lexer);
                if (!take_number(walk))
                    return unexpected(walk);
            }
        } else if (ptx_is(&walk->lexer, "inlined_at")) {
            ptx_lex_next(&walk->lexer);
            for (int i = 0; i < 3; i++)
                if (!take_number(walk))
                    return unexpected(walk);
        } else {
            return unexpected(walk);
        }
    }
    return 0;
}

static int read_directive(struct ptx_walk *walk)
{
    static const char *const declarations[] = {".reg", ".local", ".shared", ".param"};

    for (size_t i = 0; i < sizeof(declarations) / sizeof(declarations[0]); i++)
        if (ptx_is(&walk->lexer, declarations[i]))
            return gather(walk, PTX_STATEMENT_DECLARATION);
    if (ptx_is(&walk->lexer, ".loc"))
        return read_line(walk);
    if (!ptx_is(&walk->lexer, ".pragma") && !ptx_is(&walk->lexer, ".branchtargets"))
        return -ENOTSUP;
    while (!ptx_punct(&walk->lexer, ';')) { /* a switch may have thousands of targets */
        if (walk->lexer.now.kind == PTX_END || walk->lexer.now.kind == PTX_BAD)
            return -EINVAL;
        ptx_lex_next(&walk->lexer);
    }
    walk->now.kind = PTX_STATEMENT_DIRECTIVE;
    walk->now.end = walk->lexer.now.at + 1;
    ptx_lex_next(&walk->lexer);
    return 0;
}

static int read_brace(struct ptx_walk *walk)
{
    walk->now.kind = PTX_STATEMENT_BRACE;
    walk->now.end = walk->lexer.now.at + 1;
    if (ptx_punct(&walk->lexer, '{'))
        walk->depth++;
    else
        walk->depth--;
    ptx_lex_next(&walk->lexer);
    return 0;
}

/* A word: a label if a colon follows, else an opcode. */
static int read_word(struct ptx_walk *walk)
{
    struct ptx_statement *now = &walk->now;

    now->tokens[now->count++] = walk->lexer.now;
    ptx_lex_next(&walk->lexer);
    if (!ptx_punct(&walk->lexer, ':'))
        return gather(walk, PTX_STATEMENT_INSTRUCTION);
    now->kind = PTX_STATEMENT_LABEL;
    now->end = walk->lexer.now.at + 1;
    ptx_lex_next(&walk->lexer);
    return 0;
}

int ptx_walk_next(struct ptx_walk *walk)
{
    const struct ptx_token *token = &walk->lexer.now;

    walk->now.start = token->at;
    walk->now.end = token->at;
    walk->now.count = 0;
    if (ptx_punct(&walk->lexer, '{') || (ptx_punct(&walk->lexer, '}') && walk->depth))
        return read_brace(walk);
    if (walk->depth == 0) { /* more may follow if an instruction held the brace that the item's end was found by */
        walk->now.kind = PTX_STATEMENT_END;
        return token->kind == PTX_END ? 0 : -ENOTSUP;
    }
    if (ptx_punct(&walk->lexer, ';')) { /* an empty statement */
        walk->now.kind = PTX_STATEMENT_DIRECTIVE;
        walk->now.end = token->at + 1;
        ptx_lex_next(&walk->lexer);
        return 0;
    }
    if (token->kind == PTX_DOT)
        return read_directive(walk);
    if (ptx_punct(&walk->lexer, '@'))
        return gather(walk, PTX_STATEMENT_INSTRUCTION);
    if (token->kind == PTX_WORD)
        return read_word(walk);
    return unexpected(walk);
}
