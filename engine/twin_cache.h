/* SPDX-License-Identifier: Apache-2.0
 *
 * Rewritten kernels on disk, so that the next process finds them: files in one folder, named by a hash of what they
 * were made from, each with its key, a version and a checksum.
 *
 * Any number of processes may use a folder at once: a file is written under another name and then renamed, so that who
 * opens it finds all of it or nothing. What does not check is removed and made again. The folder is kept below a size
 * by removing the files that were written longest ago. Nothing here is needed: every failure means "not there".
 *
 * Refusals are kept too: they took as long to find out. What depends on addresses in a process is never kept.
 */
#ifndef COISSUE_ENGINE_TWIN_CACHE_H
#define COISSUE_ENGINE_TWIN_CACHE_H

#include "coalesce/coalesce.h"
#include "coalesce/image.h"

enum { TWIN_CACHE_FOLDER_MAX = 448, TWIN_CACHE_PATH_MAX = 512 };

struct twin_cache {
    char folder[TWIN_CACHE_FOLDER_MAX]; /* empty: no cache */
    uint64_t bytes_max;
    uint32_t written; /* files since the folder was last measured */
};

struct twin_key {
    struct image_digest code; /* of the cubin or PTX that the kernel was found in */
    const char *kernel;
    uint32_t sm, members, form;
};

/*
 * `folder`: where to keep files; NULL or empty: coissue/ in the user's cache folder (XDG_CACHE_HOME, else ~/.cache);
 * "off": nowhere. The folder is made when the first file is written.
 */
void twin_cache_init(struct twin_cache *cache, const char *folder, uint64_t bytes_max);

/*
 * 0: `output` is filled, its image is the caller's to free. -ENOTSUP: it was refused, `refusal` says why. -ENOENT: not
 * there. One thread at a time per structure; processes need no agreement.
 */
int twin_cache_get(struct twin_cache *cache, const struct twin_key *key, struct coalesce_output *output,
                   enum coalesce_refusal *refusal);

/* Keeps an output, or (NULL) a refusal. */
void twin_cache_put(struct twin_cache *cache, const struct twin_key *key, const struct coalesce_output *output,
                    enum coalesce_refusal refusal);

#endif
