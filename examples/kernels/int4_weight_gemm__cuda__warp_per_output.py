"""One warp an output column; each lane unpacks eight weights of a word and feeds eight rows of x."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_fp16.h>
#define ROWS 8
extern "C" __global__ void warp_rows(const __half* __restrict__ x, const unsigned* __restrict__ packed, const __half* __restrict__ scale, __half* __restrict__ y, int m, int n, int k) {
    int lane = threadIdx.x % 32;
    int col = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int row0 = blockIdx.y * ROWS;
    if (col >= n) return;
    int words = k / 8;
    float acc[ROWS];
    for (int r = 0; r < ROWS; ++r) acc[r] = 0.0f;
    for (int i = lane; i < words; i += 32) {
        unsigned word = packed[(long long)col * words + i];
        float s = __half2float(scale[col * (k / 128) + i / 16]);
        float w[8];
        #pragma unroll
        for (int e = 0; e < 8; ++e) w[e] = ((int)(word >> (4 * e) & 15u) - 8) * s;
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (row0 + r < m) {
                uint4 raw = *(const uint4*)(x + (long long)(row0 + r) * k + i * 8);
                const __half* v = (const __half*)&raw;
                #pragma unroll
                for (int e = 0; e < 8; ++e) acc[r] = fmaf(__half2float(v[e]), w[e], acc[r]);
            }
        }
    }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        float s = acc[r];
        for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
        if (lane == 0 && row0 + r < m) y[(row0 + r) * n + col] = __float2half(s);
    }
}
""")


def run(x, packed, scale):
    m, k = x.shape
    n = packed.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.float16)
    module.launch("warp_rows", grid=((n + 7) // 8, (m + 7) // 8), block=256, args=(x, packed, scale, y, m, n, k))
    return y
