/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating the files that a user named. Templates (%p, %h) are expanded by config_expand_path.
 */
#ifndef COISSUE_BASE_PATH_H
#define COISSUE_BASE_PATH_H

enum { PATH_TEXT_MAX = 4096 }; /* PATH_MAX of Linux, with the NUL */

/* Creates the folders above the last component that are missing, with mode 0777 less the umask. -errno of the first
 * that failed. */
int path_make_folders(const char *path);

/* open(2) for writing with O_CREAT, O_CLOEXEC and mode 0666 less the umask, plus `flags` (O_TRUNC, O_APPEND...), after
 * making missing folders. The descriptor is never 0, 1 or 2: a program may have closed those and expect to get them for
 * itself. -errno. */
int path_create(const char *path, int flags);

#endif
