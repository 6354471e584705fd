"""64 by 64 tiles, four by four sums a thread, k trimmed; tiles above the diagonal only store zeros."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define T 64
#define D 16
#define LD 68
extern "C" __global__ void __launch_bounds__(256) product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
    __shared__ __align__(16) float as[D * LD];
    __shared__ __align__(16) float bs[D * LD];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    int row0 = (gridDim.y - 1 - blockIdx.y) * T, col0 = blockIdx.x * T;
    float acc[4][4] = {};
    int end = min(n, row0 + T);
    for (int k0 = col0; k0 < end; k0 += D) {
        #pragma unroll
        for (int e = tid; e < T * D; e += 256) {
            int r = e / D, q = e % D;
            as[q * LD + r] = row0 + r < n && k0 + q < end ? a[(long long)(row0 + r) * n + k0 + q] : 0.0f;
            q = e / T, r = e % T;
            bs[q * LD + r] = col0 + r < n && k0 + q < end ? b[(long long)(k0 + q) * n + col0 + r] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < D; ++q) {
            float u[4], v[4];
            *(float4*)u = *(const float4*)(as + q * LD + ty * 4);
            *(float4*)v = *(const float4*)(bs + q * LD + tx * 4);
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(u[i], v[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int row = row0 + ty * 4 + i, col = col0 + tx * 4 + j;
            if (row < n && col < n) c[(long long)row * n + col] = acc[i][j];
        }
}
""")


def run(a, b):
    n = a.shape[0]
    c = torch.empty_like(a)
    module.launch("product", grid=((n + 63) // 64, (n + 63) // 64), block=256, args=(a, b, c, n))
    return c
