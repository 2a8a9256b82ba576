/* SPDX-License-Identifier: Apache-2.0
 *
 * The statements of a PTX body, one at a time.
 */
#ifndef COISSUE_COALESCE_PTX_WALK_H
#define COISSUE_COALESCE_PTX_WALK_H

#include "coalesce/ptx_lex.h"

enum { PTX_TOKENS_MAX = 4096 }; /* of a statement; the longest that compilers write are calls, with some hundreds */

enum ptx_statement_kind {
    PTX_STATEMENT_END,         /* behind the last '}' */
    PTX_STATEMENT_BRACE,       /* '{' or '}' */
    PTX_STATEMENT_LABEL,       /* tokens[0] is its name */
    PTX_STATEMENT_DECLARATION, /* .reg .local .shared .param */
    PTX_STATEMENT_LINE,        /* .loc: for debuggers */
    PTX_STATEMENT_DIRECTIVE,   /* .pragma .branchtargets */
    PTX_STATEMENT_INSTRUCTION,
};

struct ptx_walk {
    struct ptx_lexer lexer;
    size_t depth;
    struct ptx_statement {
        enum ptx_statement_kind kind;
        const char *start, *end; /* with the semicolon */
        size_t count;
        struct ptx_token tokens[PTX_TOKENS_MAX]; /* without it; declarations and instructions have them */
    } now;
};

/* `body` is a '{'. */
void ptx_walk_start(struct ptx_walk *walk, const char *body, const char *end);

/* Reads the next statement into `now`. -EINVAL: the text breaks off; -ENOTSUP: a statement that is not known. */
int ptx_walk_next(struct ptx_walk *walk);

#endif
