/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/twin_cache.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/coissue-cache-XXXXXX";

static void make_folder(void)
{
    strcpy(folder, "/tmp/coissue-cache-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    cr_assert(system(command) == 0);
}

TestSuite(twin_cache, .init = make_folder, .fini = remove_folder);

static struct twin_key key_of(uint64_t code, const char *kernel, uint32_t form)
{
    return (struct twin_key){.code = {{code, 2}}, .kernel = kernel, .sm = 90, .members = 16, .form = form};
}

static struct coalesce_output output_of(char *image, size_t size)
{
    return (struct coalesce_output){
        .image = image,
        .size = size,
        .layout = {.capacity = 2, .parameter_bytes = 24, .base = 512, .stride = 128, .bytes = 664},
        .instructions = 7,
        .constants = true,
    };
}

static void put(struct twin_cache *cache, struct twin_key key, size_t size, char fill)
{
    char *image = malloc(size);
    struct coalesce_output output = output_of(image, size);

    memset(image, fill, size);
    twin_cache_put(cache, &key, &output, COALESCE_NONE);
    free(image);
}

static int get(struct twin_cache *cache, struct twin_key key, struct coalesce_output *output)
{
    enum coalesce_refusal refusal = COALESCE_NONE;

    return twin_cache_get(cache, &key, output, &refusal);
}

/* Path of the only file, and how many there are. */
static int files(char *path)
{
    DIR *directory = opendir(folder);
    struct dirent *found;
    int count = 0;

    while (directory && (found = readdir(directory)))
        if (found->d_name[0] != '.') {
            if (path)
                sprintf(path, "%s/%s", folder, found->d_name);
            count++;
        }
    if (directory)
        closedir(directory);
    return count;
}

Test(twin_cache, gives_back_what_was_put_in_by_another_process)
{
    struct twin_cache writer, reader;
    struct coalesce_output output;

    twin_cache_init(&writer, folder, 1 << 20);
    twin_cache_init(&reader, folder, 1 << 20);
    put(&writer, key_of(1, "kernel", 0), 1000, 'a');
    cr_assert(eq(int, get(&reader, key_of(1, "kernel", 0), &output), 0));
    cr_expect(eq(sz, output.size, 1000));
    cr_expect(eq(int, ((char *)output.image)[999], 'a'));
    cr_expect(eq(int, ((char *)output.image)[1000], 0), "PTX ends with a NUL");
    cr_expect(eq(u32, output.layout.bytes, 664));
    cr_expect(eq(u32, output.instructions, 7));
    cr_expect(output.constants);
    free(output.image);
}

Test(twin_cache, keeps_kernels_code_and_forms_apart)
{
    struct twin_cache cache;
    struct coalesce_output output;

    twin_cache_init(&cache, folder, 1 << 20);
    put(&cache, key_of(1, "kernel", 0), 10, 'a');
    cr_expect(eq(int, get(&cache, key_of(2, "kernel", 0), &output), -ENOENT));
    cr_expect(eq(int, get(&cache, key_of(1, "kernel2", 0), &output), -ENOENT));
    cr_expect(eq(int, get(&cache, key_of(1, "kernel", 1), &output), -ENOENT));
}

Test(twin_cache, keeps_refusals)
{
    struct twin_cache cache;
    struct coalesce_output output;
    struct twin_key key = key_of(1, "kernel", 0);
    enum coalesce_refusal refusal = COALESCE_NONE;

    twin_cache_init(&cache, folder, 1 << 20);
    twin_cache_put(&cache, &key, NULL, COALESCE_TEXTURE);
    cr_expect(eq(int, twin_cache_get(&cache, &key, &output, &refusal), -ENOTSUP));
    cr_expect(eq(int, refusal, COALESCE_TEXTURE));
}

Test(twin_cache, removes_files_that_were_changed_anywhere)
{
    struct twin_cache cache;
    struct coalesce_output output;
    char path[300];
    struct stat about;

    twin_cache_init(&cache, folder, 1 << 20);
    put(&cache, key_of(1, "kernel", 0), 40, 'a');
    cr_assert(eq(int, files(path), 1));
    cr_assert(stat(path, &about) == 0);
    for (off_t at = 0; at < about.st_size; at++) {
        int fd = open(path, O_RDWR);
        char byte;

        cr_assert(pread(fd, &byte, 1, at) == 1);
        byte = (char)(byte ^ 0x10);
        cr_assert(pwrite(fd, &byte, 1, at) == 1);
        close(fd);
        cr_assert(eq(int, get(&cache, key_of(1, "kernel", 0), &output), -ENOENT), "byte %ld", (long)at);
        cr_assert(eq(int, files(NULL), 0), "byte %ld", (long)at);
        put(&cache, key_of(1, "kernel", 0), 40, 'a');
    }
}

Test(twin_cache, removes_files_that_were_cut_short)
{
    struct twin_cache cache;
    struct coalesce_output output;
    char path[300];

    twin_cache_init(&cache, folder, 1 << 20);
    for (off_t size = 0; size < 200; size += 7) {
        put(&cache, key_of(1, "kernel", 0), 100, 'a');
        cr_assert(eq(int, files(path), 1));
        cr_assert(truncate(path, size) == 0);
        cr_assert(eq(int, get(&cache, key_of(1, "kernel", 0), &output), -ENOENT), "%ld bytes", (long)size);
    }
}

Test(twin_cache, stays_below_its_size)
{
    struct twin_cache cache;
    struct coalesce_output output;
    char command[128];
    FILE *pipe;
    long kib;

    twin_cache_init(&cache, folder, 1 << 20);
    for (uint64_t i = 0; i < 300; i++)
        put(&cache, key_of(i, "kernel", 0), 20000, 'a');
    snprintf(command, sizeof(command), "du -sk --apparent-size %s", folder);
    pipe = popen(command, "r");
    cr_assert(fscanf(pipe, "%ld", &kib) == 1);
    pclose(pipe);
    /* Measured after every 64 writes. */
    cr_expect(lt(long, kib, 1024 + 64 * 21));
    cr_assert(eq(int, get(&cache, key_of(299, "kernel", 0), &output), 0), "the newest is there");
    free(output.image);
    cr_expect(eq(int, get(&cache, key_of(0, "kernel", 0), &output), -ENOENT), "the oldest is not");
}

Test(twin_cache, off_and_folders_that_cannot_be_made_are_no_cache)
{
    struct twin_cache cache;
    struct coalesce_output output;
    char path[300];

    twin_cache_init(&cache, "off", 1 << 20);
    put(&cache, key_of(1, "kernel", 0), 10, 'a');
    cr_expect(eq(int, get(&cache, key_of(1, "kernel", 0), &output), -ENOENT));
    sprintf(path, "%s/file/cache", folder);
    close(open(dirname(strdup(path)), O_CREAT | O_WRONLY, 0600));
    twin_cache_init(&cache, path, 1 << 20);
    put(&cache, key_of(1, "kernel", 0), 10, 'a');
    cr_expect(eq(int, get(&cache, key_of(1, "kernel", 0), &output), -ENOENT));
}

Test(twin_cache, is_in_the_users_cache_folder)
{
    struct twin_cache cache;

    setenv("XDG_CACHE_HOME", "/x/y", 1);
    twin_cache_init(&cache, "", 1 << 20);
    cr_expect(eq(str, cache.folder, (char *)"/x/y/coissue"));
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/home/z", 1);
    twin_cache_init(&cache, NULL, 1 << 20);
    cr_expect(eq(str, cache.folder, (char *)"/home/z/.cache/coissue"));
    unsetenv("HOME");
    twin_cache_init(&cache, NULL, 1 << 20);
    cr_expect(eq(str, cache.folder, (char *)""));
}

/* Each reader finds nothing or all of what one writer wrote. */
static void write_and_read(char fill)
{
    struct twin_cache cache;
    struct coalesce_output output;

    twin_cache_init(&cache, folder, 1 << 16);
    for (int i = 0; i < 400; i++) {
        struct twin_key key = key_of((uint64_t)(i % 5), "kernel", 0);

        put(&cache, key, 3000, fill);
        if (get(&cache, key, &output) < 0)
            continue;
        for (size_t at = 1; at < output.size; at++)
            if (((char *)output.image)[at] != ((char *)output.image)[0])
                _exit(1);
        if (output.size != 3000)
            _exit(2);
        free(output.image);
    }
    _exit(0);
}

Test(twin_cache, processes_do_not_disturb_each_other)
{
    pid_t children[4];

    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0)
            write_and_read((char)('a' + i));
    }
    for (int i = 0; i < 4; i++) {
        int status;

        cr_assert(waitpid(children[i], &status, 0) == children[i]);
        cr_expect(eq(int, status, 0));
    }
}
