/* SPDX-License-Identifier: Apache-2.0
 *
 * The PTX of kernels.cu, as text. Made into C by embed.py when the tests are built.
 */
#ifndef COISSUE_TESTS_TRAPS_KERNELS_H
#define COISSUE_TESTS_TRAPS_KERNELS_H

extern const char kernels_ptx[];      /* for sm_80 and up */
extern const char kernels_sm90_ptx[]; /* for sm_90 and up */

#endif
