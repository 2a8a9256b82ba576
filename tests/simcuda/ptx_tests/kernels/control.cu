/* SPDX-License-Identifier: Apache-2.0
 *
 * Control flow, calls, parameters of all sizes, local memory.
 */
#include <assert.h>
#include <stdio.h>

struct big {
    int head;
    double values[3998];
    int tail;
}; /* 32,000 bytes */

struct pair {
    int first;
    double second;
};

__device__ __noinline__ int collatz(unsigned long long n)
{
    int steps = 0;
    while (n != 1) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        steps++;
    }
    return steps;
}

__device__ __noinline__ int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ pair make_pair(int a, pair b)
{
    pair r = {a + b.first, b.second * 2 + a};
    return r;
}

__device__ __noinline__ int twice(int v)
{
    return 2 * v;
}

__device__ __noinline__ int square(int v)
{
    return v * v;
}

__device__ __noinline__ int minus(int v)
{
    return -v;
}

extern "C" {

__global__ void divergent(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int v = in[i], sum = 0;
    for (int a = 0; a < (v & 15); a++) {
        if ((a ^ v) & 1) {
            for (int b = a; b < 20; b++) {
                if ((b * v) % 13 == 5)
                    break;
                if (b % 3 == 0)
                    continue;
                sum += a * b;
            }
        } else {
            sum -= a;
        }
        if (sum > 900) {
            out[i] = -sum;
            return;
        }
    }
    out[i] = sum;
}

__global__ void jump_table(const int *in, int *out)
{
    int i = threadIdx.x, v = in[i], r;
    switch (v) {
    case 0: r = v + 11; break;
    case 1: r = i * 3; break;
    case 2: r = i - 77; break;
    case 3: r = i ^ 0x55; break;
    case 4: r = i * i; break;
    case 5: r = i << 3; break;
    case 6: r = ~i; break;
    case 7: r = i / 3; break;
    case 8: r = i % 5; break;
    case 9: r = i & 6; break;
    default: r = -1;
    }
    out[i] = r;
}

__global__ void calls(int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    pair p = {i, i * 0.5};
    pair q = make_pair(7, p);
    out[i * 3] = collatz(i + 1);
    out[i * 3 + 1] = q.first;
    out[i * 3 + 2] = (int) q.second;
}

__global__ void recursion(int *out)
{
    out[threadIdx.x] = fibonacci(threadIdx.x % 13);
}

__global__ void endless_recursion(int *out, int n)
{
    out[0] = fibonacci(n); /* deep enough and the stack ends */
}

__global__ void pointers(const int *which, int *out)
{
    int (*table[3])(int) = {twice, square, minus};
    out[threadIdx.x] = table[which[threadIdx.x]](threadIdx.x + 3);
}

__global__ void big_parameter(struct big b, double *out)
{
    double sum = 0;
    for (int i = threadIdx.x; i < 3998; i += blockDim.x)
        sum += b.values[i];
    out[threadIdx.x] = sum + b.head + b.tail;
}

#define P10(t, n) t n##0, t n##1, t n##2, t n##3, t n##4, t n##5, t n##6, t n##7, t n##8, t n##9
#define S10(n) n##0 + n##1 * 2 + n##2 * 3 + n##3 * 4 + n##4 * 5 + n##5 * 6 + n##6 * 7 + n##7 * 8 + n##8 * 9 + n##9 * 10

__global__ void seventy_parameters(long long *out, P10(char, a), P10(short, b), P10(int, c), P10(long long, d),
                                   P10(unsigned char, e), P10(unsigned short, f), int g0, int g1, int g2, int g3,
                                   int g4, int g5, int g6, int g7, int g8)
{
    out[0] = S10(a);
    out[1] = S10(b);
    out[2] = S10(c);
    out[3] = S10(d);
    out[4] = S10(e);
    out[5] = S10(f);
    out[6] = g0 + g1 * 2 + g2 * 3 + g3 * 4 + g4 * 5 + g5 * 6 + g6 * 7 + g7 * 8 + g8 * 9;
}

__global__ void local_array(const int *in, int *out)
{
    int v[64];
    for (int i = 0; i < 64; i++)
        v[i] = in[(i + threadIdx.x) % 64];
    /* insertion sort: every index is computed */
    for (int i = 1; i < 64; i++) {
        int x = v[i], j = i;
        while (j > 0 && v[j - 1] > x) {
            v[j] = v[j - 1];
            j--;
        }
        v[j] = x;
    }
    for (int i = 0; i < 64; i++)
        out[threadIdx.x * 64 + i] = v[i];
}

__global__ void prints(int *out)
{
    out[threadIdx.x] = printf("thread %d of %s\n", threadIdx.x, "prints") + 5;
}

__global__ void asserts(const int *in, int *out)
{
    assert(in[threadIdx.x] < 100);
    out[threadIdx.x] = in[threadIdx.x];
}
}
