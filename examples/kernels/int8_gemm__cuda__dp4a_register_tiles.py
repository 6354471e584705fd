"""Four-way byte dot products on the ordinary cores: eight by eight sums per thread from shared word tiles."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define T 128
#define W 8
#define LD 132
// A thread moves sixteen bytes of one row and stores them as four words along k.
__device__ __forceinline__ void stage(int (*to)[LD], const signed char* from, int first, int rows, int k, int k0) {
    int r = threadIdx.x % 128, q = threadIdx.x / 128 * 4;
    int4 v = make_int4(0, 0, 0, 0);
    if (first + r < rows && k0 + q * 4 < k) v = *(const int4*)(from + (long long)(first + r) * k + k0 + q * 4);
    to[q][r] = v.x;
    to[q + 1][r] = v.y;
    to[q + 2][r] = v.z;
    to[q + 3][r] = v.w;
}
extern "C" __global__ void __launch_bounds__(256) dot_products(const signed char* __restrict__ x, const signed char* __restrict__ w, const float* __restrict__ xscale, const float* __restrict__ wscale, __nv_bfloat16* __restrict__ y, int m, int n, int k) {
    __shared__ __align__(16) int xs[W][LD];
    __shared__ __align__(16) int ws[W][LD];
    int tx = threadIdx.x % 16 * 4, ty = threadIdx.x / 16 * 4;
    int m0 = blockIdx.y * T, n0 = blockIdx.x * T;
    int acc[8][8] = {};
    for (int k0 = 0; k0 < k; k0 += 4 * W) {
        stage(xs, x, m0, m, k, k0);
        stage(ws, w, n0, n, k, k0);
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < W; ++q) {
            int4 u0 = *(const int4*)&xs[q][ty], u1 = *(const int4*)&xs[q][ty + 64];
            int4 v0 = *(const int4*)&ws[q][tx], v1 = *(const int4*)&ws[q][tx + 64];
            int u[8] = {u0.x, u0.y, u0.z, u0.w, u1.x, u1.y, u1.z, u1.w};
            int v[8] = {v0.x, v0.y, v0.z, v0.w, v1.x, v1.y, v1.z, v1.w};
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] = __dp4a(u[i], v[j], acc[i][j]);
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            int row = m0 + ty + i % 4 + i / 4 * 64, col = n0 + tx + j % 4 + j / 4 * 64;
            if (row < m && col < n) y[(long long)row * n + col] = __float2bfloat16((float)acc[i][j] * xscale[row] * wscale[col]);
        }
}
""")


def run(x, weight, x_scale, weight_scale):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = ((n + 127) // 128, (m + 127) // 128)
    module.launch("dot_products", grid=grid, block=256, args=(x, weight, x_scale, weight_scale, y, m, n, k))
    return y
