/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing to descriptors whose other end is none of our business.
 *
 * A program whose stderr is a closed pipe lives as long as it does not write to it: what we write must not bring it the
 * SIGPIPE.
 */
#ifndef COISSUE_BASE_FD_H
#define COISSUE_BASE_FD_H

#include <stddef.h>

/*
 * Writes all of it, however often a write is interrupted or takes only a part. -errno of the write that failed, which
 * may not have been the first: -EPIPE without a signal, -EAGAIN if the program made the descriptor non-blocking. Any
 * thread; callers that share a descriptor see to it that their writes do not mix.
 */
int fd_write_all(int fd, const void *bytes, size_t count);

#endif
