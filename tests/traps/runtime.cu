/* SPDX-License-Identifier: Apache-2.0
 *
 * Trap 6: launches through the CUDA runtime, which a program may contain (-cudart static) or load (-cudart shared).
 */
#include <cstdio>

__global__ void store(int *p, int value)
{
    *p = value;
}

int main()
{
    enum { COUNT = 100 };
    int *out, got[COUNT];

    if (cudaMalloc(&out, sizeof(got)) != cudaSuccess)
        return 2;
    for (int i = 0; i < COUNT; i++)
        store<<<1, 1>>>(out + i, i);
    if (cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost) != cudaSuccess)
        return 3;
    for (int i = 0; i < COUNT; i++)
        if (got[i] != i)
            return 4;
    std::puts("100 launches");
    return 0;
}
