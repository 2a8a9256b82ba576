/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/twin_cache.h"

#include "base/fd.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Raised whenever the rewriters write something else for the same input, or the file looks different. */
enum { CACHE_VERSION = 1 };
enum {
    MEASURE_EVERY = 64, /* writes after which the folder is measured: it may be that many files too large meanwhile */
    IMAGE_MAX = 64 << 20,
    NAME_BYTES = 64,
};

static const char magic[8] = "coistwin";

/*
 * The file: this, the kernel's name, the image. In the byte order of the machine: a cache is not for carrying around.
 */
struct head {
    char magic[8];
    uint32_t version, refusal;
    uint64_t code[2];
    uint32_t sm, members, form, name_bytes;
    struct coalesce_layout layout;
    uint32_t code_bytes, instructions, constants;
    uint64_t image_bytes;
    uint64_t check[2]; /* of all that follows, and of this with `check` zero */
};

void twin_cache_init(struct twin_cache *cache, const char *folder, uint64_t bytes_max)
{
    const char *root = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int length = 0;

    *cache = (struct twin_cache){.bytes_max = bytes_max};
    if (folder && strcmp(folder, "off") == 0)
        return;
    if (folder && *folder)
        length = snprintf(cache->folder, sizeof(cache->folder), "%s", folder);
    else if (root && root[0] == '/')
        length = snprintf(cache->folder, sizeof(cache->folder), "%s/coissue", root);
    else if (home && home[0] == '/')
        length = snprintf(cache->folder, sizeof(cache->folder), "%s/.cache/coissue", home);
    if (length < 0 || (size_t)length >= sizeof(cache->folder))
        cache->folder[0] = '\0';
}

static void file_name(const struct twin_cache *cache, const struct twin_key *key, char path[TWIN_CACHE_PATH_MAX])
{
    uint32_t numbers[] = {CACHE_VERSION, key->sm, key->members, key->form};
    struct image_digest name = image_hash(key->kernel, strlen(key->kernel), 0);
    uint64_t words[] = {key->code.words[0],
                        key->code.words[1],
                        name.words[0],
                        name.words[1],
                        (uint64_t)numbers[0] << 32 | numbers[1],
                        (uint64_t)numbers[2] << 32 | numbers[3]};
    struct image_digest digest = image_hash(words, sizeof(words), 0);

    snprintf(path, TWIN_CACHE_PATH_MAX, "%s/%016lx%016lx.twin", cache->folder, (unsigned long)digest.words[0],
             (unsigned long)digest.words[1]);
}

static struct image_digest checksum(const struct head *head, const void *rest, size_t bytes)
{
    struct head bare = *head;
    struct image_digest digest;

    memset(bare.check, 0, sizeof(bare.check));
    digest = image_hash(&bare, sizeof(bare), 1);
    bare.check[0] = digest.words[0];
    digest = image_hash(rest, bytes, (uint32_t)bare.check[0]);
    digest.words[1] ^= bare.check[0];
    return digest;
}

static bool read_all(int fd, void *to, size_t bytes)
{
    while (bytes > 0) {
        ssize_t got = read(fd, to, bytes);

        if (got <= 0)
            return false;
        to = (char *)to + got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool head_is_sound(const struct head *head, off_t file_bytes)
{
    const struct coalesce_layout *layout = &head->layout;

    if (memcmp(head->magic, magic, sizeof(magic)) != 0 || head->version != CACHE_VERSION ||
        head->refusal >= COALESCE_REFUSAL_COUNT || head->image_bytes > IMAGE_MAX || head->name_bytes > 65536 ||
        (uint64_t)file_bytes != sizeof(*head) + head->name_bytes + head->image_bytes)
        return false;
    if (head->refusal != COALESCE_NONE)
        return head->image_bytes == 0;
    return layout->capacity > 0 && layout->bytes <= COALESCE_AREA_MAX && layout->base >= COALESCE_MEMBER_HEADER &&
           layout->base + (uint64_t)(layout->capacity - 1) * layout->stride + layout->parameter_bytes == layout->bytes;
}

static bool is_for(const struct head *head, const char *name, const struct twin_key *key)
{
    return head->code[0] == key->code.words[0] && head->code[1] == key->code.words[1] && head->sm == key->sm &&
           head->members == key->members && head->form == key->form && head->name_bytes == strlen(key->kernel) &&
           memcmp(name, key->kernel, head->name_bytes) == 0;
}

static void take(const struct head *head, void *image, struct coalesce_output *output)
{
    *output = (struct coalesce_output){
        .image = image,
        .size = head->image_bytes,
        .layout = head->layout,
        .code_bytes = head->code_bytes,
        .instructions = head->instructions,
        .constants = head->constants != 0,
    };
}

/* `*rest`: name and image with a NUL behind, malloc'd. */
static int read_file(const char *path, struct head *head, char **rest)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), result = -EBADMSG;
    struct image_digest check;
    struct stat about;
    char *bytes = NULL;
    size_t count;

    if (fd < 0)
        return -ENOENT;
    /* Only what this user wrote: the image will run. */
    if (fstat(fd, &about) < 0 || !S_ISREG(about.st_mode) || about.st_uid != geteuid() ||
        !read_all(fd, head, sizeof(*head)) || !head_is_sound(head, about.st_size))
        goto close_it;
    count = head->name_bytes + head->image_bytes;
    bytes = malloc(count + 1);
    if (!bytes || !read_all(fd, bytes, count))
        goto close_it;
    check = checksum(head, bytes, count);
    if (check.words[0] != head->check[0] || check.words[1] != head->check[1])
        goto close_it;
    bytes[count] = '\0';
    *rest = bytes;
    bytes = NULL;
    result = 0;

close_it:
    free(bytes);
    close(fd);
    return result;
}

int twin_cache_get(struct twin_cache *cache, const struct twin_key *key, struct coalesce_output *output,
                   enum coalesce_refusal *refusal)
{
    char path[TWIN_CACHE_PATH_MAX], *rest;
    struct head head;
    int error;

    if (!cache->folder[0])
        return -ENOENT;
    file_name(cache, key, path);
    error = read_file(path, &head, &rest);
    if (error == -EBADMSG)
        unlink(path);
    if (error < 0)
        return -ENOENT;
    if (!is_for(&head, rest, key)) {
        free(rest);
        return -ENOENT;
    }
    if (head.refusal != COALESCE_NONE) {
        *refusal = (enum coalesce_refusal)head.refusal;
        free(rest);
        return -ENOTSUP;
    }
    memmove(rest, rest + head.name_bytes, head.image_bytes + 1);
    take(&head, rest, output);
    return 0;
}

/* ---- writing ---- */

struct entry {
    char name[NAME_BYTES];
    int64_t written_ns;
    uint64_t bytes;
};

static int older_first(const void *a, const void *b)
{
    int64_t x = ((const struct entry *)a)->written_ns, y = ((const struct entry *)b)->written_ns;

    return (x > y) - (x < y);
}

static bool look_at(int folder, const char *name, struct entry *entry)
{
    size_t length = strlen(name);
    struct stat about;

    if (length < 5 || length >= sizeof(entry->name) || strcmp(name + length - 5, ".twin") != 0 ||
        fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(about.st_mode))
        return false;
    memcpy(entry->name, name, length + 1);
    entry->written_ns = (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
    entry->bytes = (uint64_t)about.st_size;
    return true;
}

/* Removes the oldest files until the rest is a quarter below the limit, so that this is not needed again at once. */
static void shrink(const struct twin_cache *cache)
{
    enum { ENTRIES_MAX = 1 << 16 };
    struct entry *entries = malloc(ENTRIES_MAX * sizeof(*entries));
    DIR *folder = entries ? opendir(cache->folder) : NULL;
    struct dirent *found;
    uint64_t total = 0;
    size_t count = 0;

    while (folder && count < ENTRIES_MAX && (found = readdir(folder)))
        if (look_at(dirfd(folder), found->d_name, &entries[count]))
            total += entries[count++].bytes;
    if (folder && total > cache->bytes_max) {
        qsort(entries, count, sizeof(*entries), older_first);
        for (size_t i = 0; i < count && total > cache->bytes_max / 4 * 3; i++)
            if (unlinkat(dirfd(folder), entries[i].name, 0) == 0)
                total -= entries[i].bytes;
    }
    if (folder)
        closedir(folder);
    free(entries);
}

static struct head make_head(const struct twin_key *key, const struct coalesce_output *output,
                             enum coalesce_refusal refusal)
{
    struct head head;

    memset(&head, 0, sizeof(head)); /* padding too: it is in the checksum */
    memcpy(head.magic, magic, sizeof(magic));
    head.version = CACHE_VERSION;
    head.refusal = output ? COALESCE_NONE : refusal;
    head.code[0] = key->code.words[0];
    head.code[1] = key->code.words[1];
    head.sm = key->sm;
    head.members = key->members;
    head.form = key->form;
    head.name_bytes = (uint32_t)strlen(key->kernel);
    if (output) {
        head.layout = output->layout;
        head.code_bytes = output->code_bytes;
        head.instructions = output->instructions;
        head.constants = output->constants;
        head.image_bytes = output->size;
    }
    return head;
}

void twin_cache_put(struct twin_cache *cache, const struct twin_key *key, const struct coalesce_output *output,
                    enum coalesce_refusal refusal)
{
    struct head head = make_head(key, output, refusal);
    size_t count = head.name_bytes + head.image_bytes;
    char path[TWIN_CACHE_PATH_MAX], part[TWIN_CACHE_PATH_MAX + 32];
    struct image_digest check;
    char *rest;
    bool good;
    int fd;

    if (!cache->folder[0] || head.image_bytes > IMAGE_MAX || head.name_bytes > 65536)
        return;
    file_name(cache, key, path);
    snprintf(part, sizeof(part), "%s.%ld", path, (long)getpid());
    rest = malloc(count);
    if (!rest)
        return;
    memcpy(rest, key->kernel, head.name_bytes);
    if (output)
        memcpy(rest + head.name_bytes, output->image, output->size);
    check = checksum(&head, rest, count);
    head.check[0] = check.words[0];
    head.check[1] = check.words[1];
    fd = path_create(part, O_TRUNC | O_NOFOLLOW);
    good = fd >= 0 && fd_write_all(fd, &head, sizeof(head)) == 0 && fd_write_all(fd, rest, count) == 0;
    if (fd >= 0)
        close(fd);
    if (!good || rename(part, path) < 0)
        unlink(part);
    free(rest);
    if (cache->written++ % MEASURE_EVERY == 0)
        shrink(cache);
}
