/* SPDX-License-Identifier: Apache-2.0
 *
 * Single operations under another rounding mode of the host. Compiled with -frounding-math; the volatile variables keep
 * the operation between the two changes of the mode. ptx_run saves and restores the caller's floating-point
 * environment.
 */
#include "tests/simcuda/ptx/internal.h"

#include <fenv.h>
#include <math.h>

static int host_mode(enum rounding rounding)
{
    switch (rounding) {
    case RND_Z:
        return FE_TOWARDZERO;
    case RND_M:
        return FE_DOWNWARD;
    case RND_P:
        return FE_UPWARD;
    default:
        return FE_TONEAREST;
    }
}

float round_float(enum round_op op, enum rounding rounding, float a, float b, float c)
{
    volatile float x = a, y = b, z = c, r;
    fesetround(host_mode(rounding));
    switch (op) {
    case ROUND_ADD:
        r = x + y;
        break;
    case ROUND_SUB:
        r = x - y;
        break;
    case ROUND_MUL:
        r = x * y;
        break;
    case ROUND_DIV:
        r = x / y;
        break;
    case ROUND_FMA:
        r = fmaf(x, y, z);
        break;
    default:
        r = sqrtf(x);
    }
    fesetround(FE_TONEAREST);
    return r;
}

double round_double(enum round_op op, enum rounding rounding, double a, double b, double c)
{
    volatile double x = a, y = b, z = c, r;
    fesetround(host_mode(rounding));
    switch (op) {
    case ROUND_ADD:
        r = x + y;
        break;
    case ROUND_SUB:
        r = x - y;
        break;
    case ROUND_MUL:
        r = x * y;
        break;
    case ROUND_DIV:
        r = x / y;
        break;
    case ROUND_FMA:
        r = fma(x, y, z);
        break;
    default:
        r = sqrt(x);
    }
    fesetround(FE_TONEAREST);
    return r;
}
