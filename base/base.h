/* SPDX-License-Identifier: Apache-2.0
 *
 * base/: what every other folder stands on, and what the C library does not give in the form needed here.
 *
 *   config   COISSUE_* variables, all from the rows of config.def
 *   log      lines to stderr or a file, from inside other people's processes
 *   path     file name templates, missing folders
 *   fd       writing all of something
 *   text     building text in a buffer of the caller: JSON, decimals without floating point
 *   clock    CLOCK_MONOTONIC in nanoseconds
 *   lock     a mutex of one word, and sleeping on a word
 *   thread   threads of ours in the processes of others
 *   ring     the queue of a lane: records of many producers to one consumer
 *
 * Invariants: nothing here allocates, exits, aborts, prints to stdout, or starts a thread unasked. errno survives every
 * call. All state is in memory of the caller, except the level, the target and the hook of the log.
 *
 * It may not know anything of CUDA, launches or scheduling, and includes nothing from another folder.
 */
#ifndef COISSUE_BASE_BASE_H
#define COISSUE_BASE_BASE_H

/* Size of a cache line on every processor that hosts a supported GPU. A wrong value costs time only. */
enum { CACHE_LINE = 64 };

#define array_length(array) (sizeof(array) / sizeof((array)[0]))

#endif
