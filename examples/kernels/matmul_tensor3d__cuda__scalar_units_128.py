"""No tensor cores: fp32 multiply-adds on tiles widened to float in shared memory, eight by eight a thread."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define T 128
#define D 16
#define LD 132
__device__ __forceinline__ void widen(float* to, int step, uint4 v) {
    unsigned w[4] = {v.x, v.y, v.z, v.w};
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[2 * i * step] = __uint_as_float(w[i] << 16);
        to[(2 * i + 1) * step] = __uint_as_float(w[i] & 0xffff0000u);
    }
}
extern "C" __global__ void __launch_bounds__(256) product(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b, __nv_bfloat16* __restrict__ c, int m, int n, int k) {
    __shared__ __align__(16) float as[D * LD];
    __shared__ __align__(16) float bs[D * LD];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    int row0 = blockIdx.y * T, col0 = blockIdx.x * T;
    int ar = tid % 128, aq = tid / 128 * 8, bq = tid / 16, br = tid % 16 * 8;
    float acc[8][8] = {};
    uint4 zero = make_uint4(0, 0, 0, 0);
    for (int k0 = 0; k0 < k; k0 += D) {
        uint4 va = row0 + ar < m && k0 + aq < k ? *(const uint4*)(a + (long long)(row0 + ar) * k + k0 + aq) : zero;
        uint4 vb = col0 + br < n && k0 + bq < k ? *(const uint4*)(b + (long long)(k0 + bq) * n + col0 + br) : zero;
        __syncthreads();
        widen(as + aq * LD + ar, LD, va);
        widen(bs + bq * LD + br, 1, vb);
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < D; ++q) {
            float u[8], v[8];
            *(float4*)u = *(const float4*)(as + q * LD + ty * 8);
            *(float4*)(u + 4) = *(const float4*)(as + q * LD + ty * 8 + 4);
            *(float4*)v = *(const float4*)(bs + q * LD + tx * 4);
            *(float4*)(v + 4) = *(const float4*)(bs + q * LD + 64 + tx * 4);
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(u[i], v[j], acc[i][j]);
        }
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; j += 2) {
            int row = row0 + ty * 8 + i, col = col0 + j / 4 * 64 + tx * 4 + j % 4;
            if (row < m && col < n) *(__nv_bfloat162*)(c + (long long)row * n + col) = __floats2bfloat162_rn(acc[i][j], acc[i][j + 1]);
        }
}
""")


def run(a, b):
    batch, rows, k = a.shape
    n = b.shape[1]
    m = batch * rows
    c = torch.empty((batch, rows, n), device=a.device, dtype=torch.bfloat16)
    module.launch("product", grid=((n + 127) // 128, (m + 127) // 128), block=256, args=(a, b, c, m, n, k))
    return c
