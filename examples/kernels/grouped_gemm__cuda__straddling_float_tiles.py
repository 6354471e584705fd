"""Row tiles ignore the boundaries: a tile adds up the product of every expert it touches, other rows zeroed."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define T 128
#define D 8
#define LD 132
extern "C" __global__ void __launch_bounds__(256) straddling(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight, const int* __restrict__ offsets, __nv_bfloat16* __restrict__ y, int tokens, int groups, int n, int k) {
    __shared__ __align__(16) float xs[D][LD];
    __shared__ __align__(16) float ws[D][LD];
    int tid = threadIdx.x, tx = tid % 16 * 4, ty = tid / 16 * 4;
    int m0 = blockIdx.y * T, n0 = blockIdx.x * T;
    float acc[8][8] = {};
    for (int group = 0, start = 0; group < groups; ++group) {
        int end = offsets[group], low = max(start, m0), high = min(end, min(m0 + T, tokens));
        start = end;
        if (low >= high) continue;
        const __nv_bfloat16* w = weight + (long long)group * k * n;
        for (int k0 = 0; k0 < k; k0 += D) {
            if (tid < 128) {
                uint4 v = make_uint4(0, 0, 0, 0);
                int row = m0 + tid;
                if (row >= low && row < high) v = *(const uint4*)(x + (long long)row * k + k0);
                unsigned words[4] = {v.x, v.y, v.z, v.w};
                for (int i = 0; i < 4; ++i) {
                    xs[2 * i][tid] = __uint_as_float(words[i] << 16);
                    xs[2 * i + 1][tid] = __uint_as_float(words[i] & 0xffff0000u);
                }
            } else {
                int r = (tid - 128) / 16, q = tid % 16 * 8;
                uint4 v = make_uint4(0, 0, 0, 0);
                if (n0 + q < n) v = *(const uint4*)(w + (long long)(k0 + r) * n + n0 + q);
                unsigned words[4] = {v.x, v.y, v.z, v.w};
                for (int i = 0; i < 4; ++i) {
                    ws[r][q + 2 * i] = __uint_as_float(words[i] << 16);
                    ws[r][q + 2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
                }
            }
            __syncthreads();
            #pragma unroll
            for (int q = 0; q < D; ++q) {
                float4 u0 = *(const float4*)&xs[q][ty], u1 = *(const float4*)&xs[q][ty + 64];
                float4 v0 = *(const float4*)&ws[q][tx], v1 = *(const float4*)&ws[q][tx + 64];
                float u[8] = {u0.x, u0.y, u0.z, u0.w, u1.x, u1.y, u1.z, u1.w};
                float v[8] = {v0.x, v0.y, v0.z, v0.w, v1.x, v1.y, v1.z, v1.w};
                #pragma unroll
                for (int i = 0; i < 8; ++i)
                    #pragma unroll
                    for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(u[i], v[j], acc[i][j]);
            }
            __syncthreads();
        }
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            int row = m0 + ty + i % 4 + i / 4 * 64, col = n0 + tx + j % 4 + j / 4 * 64;
            if (row < tokens && col < n) y[(long long)row * n + col] = __float2bfloat16(acc[i][j]);
        }
}
""")


def run(x, weight, offsets):
    tokens, k = x.shape
    groups, _, n = weight.shape
    y = torch.empty((tokens, n), device=x.device, dtype=torch.bfloat16)
    grid = ((n + 127) // 128, (tokens + 127) // 128)
    module.launch("straddling", grid=grid, block=256, args=(x, weight, offsets, y, tokens, groups, n, k))
    return y
