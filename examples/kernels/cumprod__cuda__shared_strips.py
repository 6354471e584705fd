"""A block stages 4096 factors in padded shared memory; every thread runs its own strip of 16 serially."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define THREADS 256
#define STRIP 16
#define CHUNK (THREADS * STRIP)
#define AT(i) ((i) + (i) / STRIP)
extern "C" __global__ void cumprod_strips(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ float line[CHUNK + THREADS];
    __shared__ float warps[THREADS / 32];
    int t = threadIdx.x, lane = t % 32;
    const float* src = x + (size_t)blockIdx.x * cols;
    float* dst = y + (size_t)blockIdx.x * cols;
    float carry = 1.0f;
    for (int start = 0; start < cols; start += CHUNK) {
        for (int i = t; i < CHUNK; i += THREADS) line[AT(i)] = start + i < cols ? src[start + i] : 1.0f;
        __syncthreads();
        float v[STRIP], run = 1.0f;
        #pragma unroll
        for (int i = 0; i < STRIP; ++i) v[i] = run *= line[AT(t * STRIP + i)];
        #pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            float left = __shfl_up_sync(0xffffffffu, run, d);
            if (lane >= d) run *= left;
        }
        if (lane == 31) warps[t / 32] = run;
        float before = __shfl_up_sync(0xffffffffu, run, 1);
        if (lane == 0) before = 1.0f;
        before *= carry;
        __syncthreads();
        for (int w = 0; w < THREADS / 32; ++w) {
            float total = warps[w];
            if (w < t / 32) before *= total;
            carry *= total;
        }
        #pragma unroll
        for (int i = 0; i < STRIP; ++i) line[AT(t * STRIP + i)] = v[i] * before;
        __syncthreads();
        for (int i = t; i < CHUNK && start + i < cols; i += THREADS) dst[start + i] = line[AT(i)];
        __syncthreads();
    }
}
""")


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    module.launch("cumprod_strips", grid=rows, block=256, args=(x, y, cols))
    return y
