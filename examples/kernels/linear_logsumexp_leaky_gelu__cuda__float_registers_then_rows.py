"""No tensor cores: float32 tiles of eight by eight per thread write the logits, then a block per row reduces them."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_fp16.h>
#define T 128
#define D 16
#define LD 132
__device__ void stage(float (*to)[LD], const __half* from, int first, int rows, int k, int k0) {
    int r = threadIdx.x / 2, q = threadIdx.x % 2 * 8;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (first + r < rows && k0 + q < k) v = *(const uint4*)(from + (long long)(first + r) * k + k0 + q);
    const __half2* h = (const __half2*)&v;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        float2 f = __half22float2(h[i]);
        to[q + 2 * i][r] = f.x;
        to[q + 2 * i + 1][r] = f.y;
    }
}
extern "C" __global__ void __launch_bounds__(256) logits_float(const __half* __restrict__ x, const __half* __restrict__ w, const __half* __restrict__ bias, float* __restrict__ logits, int m, int n, int k) {
    __shared__ __align__(16) float xs[D][LD];
    __shared__ __align__(16) float ws[D][LD];
    int tx = threadIdx.x % 16 * 4, ty = threadIdx.x / 16 * 4;
    int m0 = blockIdx.y * T, n0 = blockIdx.x * T;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < k; k0 += D) {
        stage(xs, x, m0, m, k, k0);
        stage(ws, w, n0, n, k, k0);
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < D; ++q) {
            float u[8], v[8];
            *(float4*)u = *(const float4*)&xs[q][ty];
            *(float4*)(u + 4) = *(const float4*)&xs[q][ty + 64];
            *(float4*)v = *(const float4*)&ws[q][tx];
            *(float4*)(v + 4) = *(const float4*)&ws[q][tx + 64];
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(u[i], v[j], acc[i][j]);
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        int row = m0 + ty + i % 4 + i / 4 * 64;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            int col = n0 + tx + j % 4 + j / 4 * 64;
            if (row < m && col < n) logits[(long long)row * n + col] = acc[i][j] + __half2float(bias[col]);
        }
    }
}
__device__ float gelu(float v) { return v * normcdff(v); }
extern "C" __global__ void reduce_rows(const float* __restrict__ logits, __half* __restrict__ y, int n) {
    __shared__ float scratch[8];
    const float* row = logits + (long long)blockIdx.x * n;
    float top = -1e30f, s = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) top = fmaxf(top, row[i]);
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = top;
    __syncthreads();
    for (int i = 0; i < 8; ++i) top = fmaxf(top, scratch[i]);
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256) s += expf(row[i] - top);
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 8; ++i) s += scratch[i];
        float v = top + logf(s);
        if (v < 0.0f) v *= 0.0001f;
        y[blockIdx.x] = __float2half(gelu(gelu(v)));
    }
}
""")


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    logits = torch.empty((m, n), device=x.device, dtype=torch.float32)
    y = torch.empty((m, 1), device=x.device, dtype=torch.float16)
    grid = ((n + 127) // 128, (m + 127) // 128)
    module.launch("logits_float", grid=grid, block=256, args=(x, weight, bias, logits, m, n, k))
    module.launch("reduce_rows", grid=m, block=256, args=(logits, y, n))
    return y
