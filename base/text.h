/* SPDX-License-Identifier: Apache-2.0
 *
 * Building text in a buffer of the caller. Everything can be added; what does not fit is counted but not stored, so
 * that the length that would have been needed is known at the end, as with snprintf. No floating point, no locale, no
 * stdio.
 */
#ifndef COISSUE_BASE_TEXT_H
#define COISSUE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *at;
    size_t size;   /* of the buffer, with the NUL */
    size_t length; /* of the text, without the NUL; may exceed the buffer */
};

static inline void text_init(struct text *text, char *buffer, size_t size)
{
    *text = (struct text){.at = buffer, .size = size};
}

/* Ends with NUL if there is any buffer. Returns the length that was needed. */
static inline size_t text_end(struct text *text)
{
    if (text->size)
        text->at[text->length < text->size ? text->length : text->size - 1] = '\0';
    return text->length;
}

static inline bool text_overflowed(const struct text *text)
{
    return text->length >= text->size;
}

static inline void text_char(struct text *text, char c)
{
    if (text->length < text->size)
        text->at[text->length] = c;
    text->length++;
}

void text_bytes(struct text *text, const char *bytes, size_t count);
void text_string(struct text *text, const char *string);
void text_unsigned(struct text *text, uint64_t value);
void text_hex(struct text *text, uint64_t value); /* with 0x */

/* value / 10^decimals with exactly that many decimals: (1234567, 3) is 1234.567. At most 18. */
void text_decimal(struct text *text, uint64_t value, unsigned int decimals);

/* The same without trailing zeros: (1500000, 6) is 1.5, (2000000, 6) is 2. */
void text_decimal_short(struct text *text, uint64_t value, unsigned int decimals);

/* Spaces, until `width` characters were added since the text had length `since`. */
void text_pad(struct text *text, size_t since, size_t width);

/*
 * A JSON string with its quotes. At most `limit` bytes of `string` are taken (SIZE_MAX: all); if there are more, "..."
 * follows. Control characters are escaped; bytes that are not valid UTF-8 become U+FFFD each. NULL gives "".
 */
void text_json(struct text *text, const char *string, size_t limit);

/* `string` on one line for people: control characters and invalid UTF-8 become '?', longer than `limit` bytes ends in
 * "...". */
void text_clean(struct text *text, const char *string, size_t limit);

#endif
