/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain data-parallel kernels: one thread per element, grid-stride loops, a small convolution.
 */
extern "C" {

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

__global__ void saxpy(float alpha, const float *__restrict__ x, float *__restrict__ y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = alpha * x[i] + y[i];
}

__global__ void vector_add4(const float4 *a, const float4 *b, float4 *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = make_float4(a[i].x + b[i].x, a[i].y - b[i].y, a[i].z * b[i].z, fmaxf(a[i].w, b[i].w));
}

__global__ void grid_stride(const int *in, long long *out, long long n)
{
    for (long long i = blockIdx.x * (long long) blockDim.x + threadIdx.x; i < n; i += (long long) gridDim.x * blockDim.x)
        out[i] = (long long) in[i] * in[i] - i;
}

__global__ void index3d(int *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    int nx = gridDim.x * blockDim.x, ny = gridDim.y * blockDim.y;
    out[(z * ny + y) * nx + x] = x + 1000 * y + 1000000 * z;
}

__global__ void daxpy(double alpha, const double *x, double *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = sqrt(fabs(alpha * x[i] + y[i])) / (1.0 + x[i] * x[i]);
}

__global__ void conv2d(const float *image, const float *filter, float *out, int width, int height, int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float sum = 0;
    for (int dy = -radius; dy <= radius; dy++) {
        for (int dx = -radius; dx <= radius; dx++) {
            int sx = min(max(x + dx, 0), width - 1), sy = min(max(y + dy, 0), height - 1);
            sum += image[sy * width + sx] * filter[(dy + radius) * (2 * radius + 1) + dx + radius];
        }
    }
    out[y * width + x] = sum;
}

__global__ void bytes(const unsigned char *in, signed char *s8, short *s16, unsigned short *u16, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    s8[i] = (signed char) (in[i] * 3 - 7);
    s16[i] = (short) ((signed char) in[i]) * (short) 5;
    u16[i] = (unsigned short) (in[i] << 8) / 7;
}
}
