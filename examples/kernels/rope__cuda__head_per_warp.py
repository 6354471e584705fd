import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#include <cuda_bf16.h>
// blockIdx.x is a token, a warp takes every eighth head of it.
extern "C" __global__ void rope_warp(const __nv_bfloat16* __restrict__ x, const float* __restrict__ cosines,
                                     const float* __restrict__ sines, __nv_bfloat16* __restrict__ y,
                                     int length, int heads, int half) {
    int token = blockIdx.x;
    int pos = token % length;
    const float* c = cosines + (size_t)pos * half;
    const float* s = sines + (size_t)pos * half;
    for (int h = threadIdx.y; h < heads; h += blockDim.y) {
        size_t base = ((size_t)token * heads + h) * 2 * half;
        for (int d = threadIdx.x; d < half; d += 32) {
            float a = __bfloat162float(x[base + d]);
            float b = __bfloat162float(x[base + half + d]);
            y[base + d] = __float2bfloat16(a * c[d] - b * s[d]);
            y[base + half + d] = __float2bfloat16(b * c[d] + a * s[d]);
        }
    }
}
''')


def run(x, cos, sin):
    batch, length, heads, dim = x.shape
    y = torch.empty_like(x)
    module.launch(
        "rope_warp", grid=batch * length, block=(32, 8), args=(x, cos, sin, y, length, heads, dim // 2)
    )
    return y
