/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include "base/config.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int path_make_folders(const char *path)
{
    char folder[PATH_TEXT_MAX];
    size_t length = strlen(path);
    int kept = errno;
    int error = 0;

    if (length >= sizeof(folder))
        return -ENAMETOOLONG;
    memcpy(folder, path, length + 1);
    for (char *slash = folder + 1; *folder && (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        /* A folder that exists is fine even where mkdir is forbidden (EROFS, EACCES): open tells the rest. */
        if (mkdir(folder, 0777) && errno != EEXIST) {
            struct stat found;

            error = -errno;
            if (stat(folder, &found) || !S_ISDIR(found.st_mode))
                break;
            error = 0;
        }
        *slash = '/';
    }
    errno = kept;
    return error;
}

int path_create(const char *path, int flags)
{
    int kept = errno;
    int error = path_make_folders(path);
    int fd;

    if (error)
        return error;
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | flags, 0666);
    if (fd < 0) {
        error = -errno;
    } else if (fd < 3) {
        int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);

        error = moved < 0 ? -errno : 0;
        close(fd);
        fd = moved;
    }
    errno = kept;
    return error ? error : fd;
}

static void add_host(struct text *out)
{
    char host[HOST_NAME_MAX + 1];

    if (gethostname(host, sizeof(host)))
        strcpy(host, "localhost");
    host[sizeof(host) - 1] = '\0';
    for (char *c = host; *c; c++) /* a host name must not lead into another folder, nor be expanded again */
        text_char(out, *c == '/' || *c == '%' || (unsigned char)*c <= ' ' || *c == 127 ? '_' : *c);
}

int config_expand_path(const char *template_path, char *out, size_t size)
{
    char expanded[PATH_TEXT_MAX];
    struct text text;
    int kept = errno;
    size_t length;

    text_init(&text, expanded, sizeof(expanded));
    for (const char *c = template_path; *c; c++) {
        if (*c != '%') {
            text_char(&text, *c);
            continue;
        }
        switch (*++c) {
        case 'p':
            text_unsigned(&text, (uint64_t)getpid());
            break;
        case 'h':
            add_host(&text);
            break;
        case '%':
            text_char(&text, '%');
            break;
        default:
            return -EINVAL;
        }
    }
    errno = kept;
    length = text_end(&text);
    if (length >= sizeof(expanded) || length >= size)
        return -ENAMETOOLONG;
    memcpy(out, expanded, length + 1);
    return 0;
}
