# SPDX-License-Identifier: Apache-2.0
"""A vector add and a reduction with Numba. Nothing here knows about the simulated device."""
import sys

try:
    import numpy as np
    from numba import cuda, float32
except Exception as reason:
    print(f"skipped: numba-cuda cannot be imported: {reason}")
    sys.exit(77)


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def block_sums(a, sums):
    shared = cuda.shared.array(64, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    shared[t] = a[i]
    cuda.syncthreads()
    step = 32
    while step:
        if t < step:
            shared[t] += shared[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(sums, 0, shared[0])


def main():
    try:
        name = cuda.get_current_device().name
    except Exception as reason:
        print(f"skipped: numba finds no device: {reason}")
        return 77
    print("device:", name)
    n = 10000
    a = np.arange(n, dtype=np.float32)
    b = 2 * a
    c = np.zeros_like(a)
    try:
        add[(n + 127) // 128, 128](a, b, c)
    except Exception as reason:
        if "NVVM" in str(reason) or "libdevice" in str(reason) or "nvrtc" in str(reason).lower():
            print(f"skipped: numba has no compiler here: {reason}")
            return 77
        raise
    stream = cuda.stream()
    d = cuda.to_device(np.ones(6400, dtype=np.float32), stream=stream)
    sums = cuda.to_device(np.zeros(1, dtype=np.float32), stream=stream)
    block_sums[100, 64, stream](d, sums)
    total = sums.copy_to_host(stream=stream)
    stream.synchronize()
    print("sum:", total[0])
    return 0 if np.array_equal(c, 3 * a) and total[0] == 6400 else 1


sys.exit(main())
