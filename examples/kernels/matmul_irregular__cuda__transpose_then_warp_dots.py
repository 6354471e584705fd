"""B is transposed first; then a warp holds a 4 by 4 patch with its lanes spread over k."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void flip(const float* __restrict__ b, float* __restrict__ bt, int k, int n) {
    __shared__ float tile[32][33];
    int col = blockIdx.x * 32 + threadIdx.x, row0 = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 32; r += 8)
        if (row0 + r < k && col < n) tile[r][threadIdx.x] = b[(long long)(row0 + r) * n + col];
    __syncthreads();
    int out = row0 + threadIdx.x;
    for (int r = threadIdx.y; r < 32; r += 8)
        if (blockIdx.x * 32 + r < n && out < k) bt[(long long)(blockIdx.x * 32 + r) * k + out] = tile[threadIdx.x][r];
}
extern "C" __global__ void __launch_bounds__(256) dots(const float* __restrict__ a, const float* __restrict__ bt, float* __restrict__ c, int m, int n, int k) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row0 = blockIdx.y * 16 + warp / 2 * 4, col0 = blockIdx.x * 8 + warp % 2 * 4;
    if (row0 >= m || col0 >= n) return;
    const float *left[4], *right[4];
    for (int i = 0; i < 4; ++i) {
        left[i] = a + (long long)min(row0 + i, m - 1) * k;
        right[i] = bt + (long long)min(col0 + i, n - 1) * k;
    }
    float acc[4][4] = {};
    #pragma unroll 2
    for (int q = lane; q < k; q += 32) {
        float u[4], v[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) { u[i] = left[i][q]; v[i] = right[i][q]; }
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            #pragma unroll
            for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(u[i], v[j], acc[i][j]);
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            float s = acc[i][j];
            #pragma unroll
            for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
            if (lane == i * 4 + j && row0 + i < m && col0 + j < n) c[(long long)(row0 + i) * n + col0 + j] = s;
        }
}
""")


def run(a, b):
    m, k = a.shape
    n = b.shape[1]
    flipped = torch.empty((n, k), device=a.device, dtype=torch.float32)
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    module.launch("flip", grid=((n + 31) // 32, (k + 31) // 32), block=(32, 8), args=(b, flipped, k, n))
    module.launch("dots", grid=((n + 7) // 8, (m + 15) // 16), block=256, args=(a, flipped, c, m, n, k))
    return c
