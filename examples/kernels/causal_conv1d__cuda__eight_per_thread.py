"""A thread makes eight successive outputs from a sliding window, with 16-byte accesses where rows allow them."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
extern "C" __global__ void causal8(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight, const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ y, int c, int length, int rows) {
    int per_row = (length + 7) / 8;
    long long id = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int row = (int)(id / per_row), t0 = (int)(id % per_row) * 8;
    if (row >= rows) return;
    int ch = row % c;
    float w[4];
    for (int j = 0; j < 4; ++j) w[j] = __bfloat162float(weight[ch * 4 + j]);
    float b = __bfloat162float(bias[ch]);
    const __nv_bfloat16* src = x + (long long)row * length;
    float v[11];
    for (int j = 0; j < 3; ++j) v[j] = t0 > 0 ? __bfloat162float(src[t0 - 3 + j]) : 0.0f;
    bool wide = length % 8 == 0;
    uint4 raw;
    __nv_bfloat16* part = (__nv_bfloat16*)&raw;
    if (wide) raw = *(const uint4*)(src + t0);
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        if (wide) v[3 + j] = __bfloat162float(part[j]);
        else v[3 + j] = t0 + j < length ? __bfloat162float(src[t0 + j]) : 0.0f;
    }
    __nv_bfloat16* dst = y + (long long)row * length + t0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        float s = b + w[0] * v[j] + w[1] * v[j + 1] + w[2] * v[j + 2] + w[3] * v[j + 3];
        part[j] = __float2bfloat16(s / (1.0f + __expf(-s)));
        if (!wide && t0 + j < length) dst[j] = part[j];
    }
    if (wide) *(uint4*)dst = raw;
}
""")


def run(x, weight, bias):
    n, c, length = x.shape
    y = torch.empty_like(x)
    threads = n * c * ((length + 7) // 8)
    module.launch("causal8", grid=(threads + 255) // 256, block=256, args=(x, weight, bias, y, c, length, n * c))
    return y
