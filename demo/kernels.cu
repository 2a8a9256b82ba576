/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the demo: a small classifier, as launches of an inference server look, but tiny. All matrices are
 * SIDE x SIDE. regenerate.sh makes kernels.ptx from this file; both are committed, so that the build needs no nvcc.
 */
enum { SIDE = 32, TILE = 16 };

/* out = a * b, in tiles that pass through shared memory. Grid (SIDE / TILE, SIDE / TILE), block (TILE, TILE). */
extern "C" __global__ void multiply(float *out, const float *a, const float *b)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    unsigned int x = threadIdx.x, y = threadIdx.y;
    unsigned int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0;

    for (unsigned int step = 0; step < SIDE; step += TILE) {
        tile_a[y][x] = a[row * SIDE + step + x];
        tile_b[y][x] = b[(step + y) * SIDE + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();
    }
    out[row * SIDE + column] = sum;
}

/* values = max(values + bias of the column, 0). One thread for each value. */
extern "C" __global__ void bias_relu(float *values, const float *bias, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count) {
        float value = values[i] + bias[i % SIDE];

        values[i] = value > 0 ? value : 0;
    }
}

/* largest[row] = the largest value of a row. Grid SIDE, block SIDE. */
extern "C" __global__ void row_maximum(float *largest, const float *values)
{
    __shared__ float part[SIDE];
    unsigned int x = threadIdx.x;

    part[x] = values[blockIdx.x * SIDE + x];
    for (unsigned int half = SIDE / 2; half > 0; half /= 2) {
        __syncthreads();
        if (x < half && part[x + half] > part[x])
            part[x] = part[x + half];
    }
    if (x == 0)
        largest[blockIdx.x] = part[0];
}

/* Each row of values becomes probabilities. Grid SIDE, block SIDE. */
extern "C" __global__ void softmax(float *out, const float *values, const float *largest)
{
    __shared__ float part[SIDE];
    unsigned int x = threadIdx.x, at = blockIdx.x * SIDE + x;
    float power = __expf(values[at] - largest[blockIdx.x]);

    part[x] = power;
    for (unsigned int half = SIDE / 2; half > 0; half /= 2) {
        __syncthreads();
        if (x < half)
            part[x] += part[x + half];
    }
    __syncthreads();
    out[at] = power / part[0];
}
