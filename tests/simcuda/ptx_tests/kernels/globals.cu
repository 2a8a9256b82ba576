/* SPDX-License-Identifier: Apache-2.0
 *
 * Module-scope variables with and without initialisers, virtual functions.
 */
struct item {
    char tag;
    short s;
    float f;
    const char *text;
};

extern "C" {
__device__ int counter = 5;
__device__ float table[8] = {1.5f, -2.25f, 3e10f, 4};
__device__ double zeros[100];
__constant__ int weights[4] = {10, -20, 30, -40};
__constant__ unsigned char bytes[5] = {1, 2, 254, 255, 7};
__device__ int *pointer = &counter;
__device__ float *inside = &table[3];
__device__ const item items[2] = {{'a', -2, 1.0f, "first"}, {'b', 3, 2.0f, "second"}};
__constant__ unsigned long long wide[2] = {0x123456789abcdef0ull, ~0ull};
__device__ unsigned ticket;
}

struct shape {
    __device__ virtual float area() const = 0;
    float side;
};

struct rectangle : shape {
    __device__ float area() const override { return side * side; }
};

struct disc : shape {
    __device__ float area() const override { return side * side * 3; }
};

extern "C" {
__global__ void use_globals(float *f, int *i, unsigned long long *w)
{
    int t = threadIdx.x;
    f[t] = table[t & 7] + (float) zeros[t];
    i[t] = weights[t & 3] + bytes[t % 5] + *pointer;
    w[t] = wide[t & 1];
    if (t == 0) {
        *inside = 77;
        counter = 6;
    }
}

__global__ void use_items(int *out)
{
    const item *p = &items[threadIdx.x & 1];
    int length = 0;
    while (p->text[length])
        length++;
    out[threadIdx.x] = p->tag * 1000000 + p->s * 1000 + (int) p->f * 100 + length;
}

__global__ void take_tickets(int *seen)
{
    seen[atomicAdd(&ticket, 1)] += 1;
}

__global__ void virtuals(const int *kind, float *out)
{
    rectangle r;
    disc d;
    r.side = threadIdx.x;
    d.side = threadIdx.x;
    shape *s = kind[threadIdx.x] ? (shape *) &d : (shape *) &r;
    out[threadIdx.x] = s->area();
}
}
