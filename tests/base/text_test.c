/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in bounded buffers, and the files that a user names.
 */
#include "base/path.h"
#include "base/text.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char buffer[4096];
static struct text text;

static struct text *fresh(void)
{
    text_init(&text, buffer, sizeof(buffer));
    return &text;
}

static char *finished(void)
{
    cr_assert(eq(sz, text_end(&text), strlen(buffer)));
    return buffer;
}

Test(text, numbers_have_all_their_digits)
{
    text_unsigned(fresh(), 0);
    text_char(&text, ' ');
    text_unsigned(&text, UINT64_MAX);
    text_char(&text, ' ');
    text_hex(&text, UINT64_MAX);
    text_char(&text, ' ');
    text_hex(&text, 0);
    cr_assert(eq(str, finished(), "0 18446744073709551615 0xffffffffffffffff 0x0"));
}

Test(text, decimals_are_exact)
{
    static const struct {
        uint64_t value;
        unsigned int decimals;
        char *full, *brief;
    } rows[] = {
        {0, 3, "0.000", "0"},
        {1, 3, "0.001", "0.001"},
        {999, 3, "0.999", "0.999"},
        {1000, 3, "1.000", "1"},
        {1234567, 3, "1234.567", "1234.567"},
        {1500000, 6, "1.500000", "1.5"},
        {10, 0, "10", "10"},
        {100, 1, "10.0", "10"},
        {UINT64_MAX, 3, "18446744073709551.615", "18446744073709551.615"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        text_decimal(fresh(), rows[i].value, rows[i].decimals);
        cr_assert(eq(str, finished(), rows[i].full));
        text_decimal_short(fresh(), rows[i].value, rows[i].decimals);
        cr_assert(eq(str, finished(), rows[i].brief));
    }
}

Test(text, what_does_not_fit_is_counted_and_not_written)
{
    char small[8];

    memset(small, '#', sizeof(small));
    text_init(&text, small, 4);
    text_string(&text, "ab");
    text_string(&text, "cdef");
    text_char(&text, 'g');
    text_pad(&text, 0, 9);
    cr_assert(text_overflowed(&text));
    cr_assert(eq(sz, text_end(&text), 9));
    cr_assert(eq(str, small, "abc"));
    cr_assert(eq(chr, small[4], '#'));
    text_init(&text, NULL, 0);
    text_json(&text, "abc", 10);
    cr_assert(eq(sz, text_end(&text), 5));
}

Test(text, json_strings_are_escaped)
{
    text_json(fresh(), "a\"b\\c\n\x01\x7f/", 100);
    cr_assert(eq(str, finished(), "\"a\\\"b\\\\c\\u000a\\u0001\\u007f/\""));
    text_json(fresh(), NULL, 100);
    cr_assert(eq(str, finished(), "\"\""));
}

Test(text, json_strings_keep_utf8_and_replace_what_is_none)
{
    text_json(fresh(), "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", 100);
    cr_assert(eq(str, finished(), "\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\""));
    /* overlong, surrogate, too large, cut short, continuation alone */
    text_json(fresh(), "\xc0\x80", 100);
    cr_assert(eq(str, finished(), "\"\xef\xbf\xbd\xef\xbf\xbd\""));
    text_json(fresh(), "\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82|\x80", 100);
    cr_assert(eq(str, finished(),
                 "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|"
                 "\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\""));
    text_json(fresh(), "\xf0\x9f\x98", 100);
    cr_assert(eq(str, finished(), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""));
}

Test(text, a_long_json_string_is_cut_between_characters)
{
    text_json(fresh(), "abcdef", 6);
    cr_assert(eq(str, finished(), "\"abcdef\""));
    text_json(fresh(), "abcdef", 5);
    cr_assert(eq(str, finished(), "\"abcde...\""));
    text_json(fresh(), "ab\xe2\x82\xac", 4);
    cr_assert(eq(str, finished(), "\"ab...\""));
}

Test(text, random_bytes_always_make_valid_json)
{
    srand(7);
    for (int round = 0; round < 20000; round++) {
        char bytes[65];
        size_t length = (size_t)rand() % sizeof(bytes);
        json_t *parsed;

        for (size_t i = 0; i < length; i++)
            bytes[i] = (char)(round % 2 ? 1 + rand() % 255 : 0xc0 | rand());
        for (size_t i = 0; i < length; i++)
            bytes[i] = bytes[i] ? bytes[i] : 1;
        bytes[length < sizeof(bytes) ? length : 64] = '\0';
        text_json(fresh(), bytes, (size_t)rand() % 80);
        parsed = json_loads(finished(), JSON_DECODE_ANY, NULL);
        cr_assert(ne(ptr, parsed, NULL), "%s", buffer);
        json_decref(parsed);
    }
}

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/coissue-path-XXXXXX");
    cr_assert(ne(ptr, mkdtemp(folder), NULL));
    cr_assert(eq(int, chdir(folder), 0));
}

static void remove_folder(void)
{
    char command[256];

    snprintf(command, sizeof(command), "chmod -R u+w %s; rm -r %s", folder, folder);
    cr_assert(eq(int, system(command), 0));
}

Test(path, missing_folders_are_made, .init = make_folder, .fini = remove_folder)
{
    struct stat found;
    int fd = path_create("one//two/./three/file", O_TRUNC);

    cr_assert(ge(int, fd, 3));
    cr_assert(eq(int, fcntl(fd, F_GETFD), FD_CLOEXEC));
    cr_assert(eq(int, fstat(fd, &found), 0));
    cr_assert(eq(int, S_ISREG(found.st_mode), 1));
    cr_assert(eq(int, stat("one/two/three/file", &found), 0));
    close(fd);
    cr_assert(ge(int, fd = path_create("plain", O_TRUNC), 3));
    close(fd);
}

Test(path, what_is_in_the_way_is_the_error, .init = make_folder, .fini = remove_folder)
{
    int fd = path_create("file", 0);

    close(fd);
    errno = EILSEQ;
    cr_assert(eq(int, path_create("file/x", 0), -ENOTDIR));
    cr_assert(eq(int, path_create("file/x/y", 0), -ENOTDIR));
    cr_assert(eq(int, path_create(".", 0), -EISDIR));
    cr_assert(eq(int, path_create("", 0), -ENOENT));
    cr_assert(eq(int, path_create("/proc/nowhere/x/y", 0), -ENOENT));
    cr_assert(eq(int, errno, EILSEQ));
}

Test(path, a_free_standard_descriptor_is_not_taken, .init = make_folder, .fini = remove_folder)
{
    int fd;

    close(0);
    fd = path_create("file", 0);
    cr_assert(ge(int, fd, 3));
    cr_assert(eq(int, fcntl(0, F_GETFD), -1));
    close(fd);
}
