/* SPDX-License-Identifier: Apache-2.0
 *
 * The only clock of coissue: CLOCK_MONOTONIC, in nanoseconds. It is read through the vDSO, without a system call, in
 * about 20 ns. It cannot fail for this clock, so there is no error.
 */
#ifndef COISSUE_BASE_CLOCK_H
#define COISSUE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Tells the processor that this is a spin loop: leaves the core to its sibling thread, and saves power. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory"); /* `yield` does nothing on most arm64 cores */
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

#endif
