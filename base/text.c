/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <string.h>

void text_bytes(struct text *text, const char *bytes, size_t count)
{
    if (text->length < text->size) {
        size_t room = text->size - text->length;

        memcpy(text->at + text->length, bytes, count < room ? count : room);
    }
    text->length += count;
}

void text_string(struct text *text, const char *string)
{
    text_bytes(text, string, strlen(string));
}

/* Writes the digits that end at `end`; returns where they begin. */
static char *digits(char *end, uint64_t value, unsigned int base)
{
    do
        *--end = "0123456789abcdef"[value % base];
    while (value /= base);
    return end;
}

void text_unsigned(struct text *text, uint64_t value)
{
    char buffer[20]; /* UINT64_MAX has 20 digits */
    char *end = buffer + sizeof(buffer);
    char *begin = digits(end, value, 10);

    text_bytes(text, begin, (size_t)(end - begin));
}

void text_hex(struct text *text, uint64_t value)
{
    char buffer[16];
    char *end = buffer + sizeof(buffer);
    char *begin = digits(end, value, 16);

    text_bytes(text, "0x", 2);
    text_bytes(text, begin, (size_t)(end - begin));
}

static void decimal(struct text *text, uint64_t value, unsigned int decimals, bool trim)
{
    char fraction[18];
    unsigned int count = decimals;

    for (unsigned int i = decimals; i-- > 0; value /= 10)
        fraction[i] = (char)('0' + value % 10);
    while (trim && count && fraction[count - 1] == '0')
        count--;
    text_unsigned(text, value);
    if (count) {
        text_char(text, '.');
        text_bytes(text, fraction, count);
    }
}

void text_decimal(struct text *text, uint64_t value, unsigned int decimals)
{
    decimal(text, value, decimals, false);
}

void text_decimal_short(struct text *text, uint64_t value, unsigned int decimals)
{
    decimal(text, value, decimals, true);
}

void text_pad(struct text *text, size_t since, size_t width)
{
    while (text->length - since < width)
        text_char(text, ' ');
}

/*
 * Length of the valid UTF-8 sequence at `s`, or 0. The rules are those of Unicode's table 3-7: no overlong forms, no
 * surrogates, nothing above U+10FFFF. Reads no further than the first byte that does not fit, so never beyond the NUL.
 */
static size_t utf8_length(const unsigned char *s)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t length;

    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        length = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        length = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        length = 4;
    else
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0;
    else if (s[0] == 0xed)
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return length;
}

static void json_ascii(struct text *text, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";

    if (c == '"' || c == '\\') {
        text_char(text, '\\');
        text_char(text, (char)c);
    } else if (c < ' ' || c == 127) {
        text_bytes(text, "\\u00", 4);
        text_char(text, hex[c >> 4]);
        text_char(text, hex[c & 15]);
    } else {
        text_char(text, (char)c);
    }
}

void text_json(struct text *text, const char *string, size_t limit)
{
    const char *s = string ? string : "";
    const char *begin = s;

    text_char(text, '"');
    while (*s) {
        size_t length = utf8_length((const unsigned char *)s);

        if ((size_t)(s - begin) + (length ? length : 1) > limit) {
            text_bytes(text, "...", 3);
            break;
        }
        if (length == 1)
            json_ascii(text, (unsigned char)*s);
        else if (length)
            text_bytes(text, s, length);
        else
            text_bytes(text, "\xef\xbf\xbd", 3);
        s += length ? length : 1;
    }
    text_char(text, '"');
}

void text_clean(struct text *text, const char *string, size_t limit)
{
    const char *s = string;

    while (*s) {
        size_t length = utf8_length((const unsigned char *)s);

        if ((size_t)(s - string) + (length ? length : 1) > limit) {
            text_bytes(text, "...", 3);
            return;
        }
        if (length > 1 || (length == 1 && (unsigned char)*s >= ' ' && *s != 127))
            text_bytes(text, s, length);
        else
            text_char(text, '?');
        s += length ? length : 1;
    }
}
