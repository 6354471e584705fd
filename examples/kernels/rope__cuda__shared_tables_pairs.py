import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#include <cuda_bf16.h>
// The token's cos and sin go to shared memory once; threads then rotate two neighbouring columns at a time.
extern "C" __global__ void rope_pairs(const __nv_bfloat162* __restrict__ x, const float* __restrict__ cosines,
                                      const float* __restrict__ sines, __nv_bfloat162* __restrict__ y,
                                      int length, int heads, int half) {
    extern __shared__ float table[];
    int pos = blockIdx.x % length;
    for (int d = threadIdx.x; d < half; d += blockDim.x) {
        table[d] = cosines[(size_t)pos * half + d];
        table[half + d] = sines[(size_t)pos * half + d];
    }
    __syncthreads();
    int words = half / 2;
    size_t token = (size_t)blockIdx.x * heads * half;
    for (int k = threadIdx.x; k < heads * words; k += blockDim.x) {
        int h = k / words, j = k - h * words;
        size_t at = token + (size_t)h * half + j;
        float2 a = __bfloat1622float2(x[at]);
        float2 b = __bfloat1622float2(x[at + words]);
        float c0 = table[2 * j], c1 = table[2 * j + 1];
        float s0 = table[half + 2 * j], s1 = table[half + 2 * j + 1];
        y[at] = __floats2bfloat162_rn(a.x * c0 - b.x * s0, a.y * c1 - b.y * s1);
        y[at + words] = __floats2bfloat162_rn(b.x * c0 + a.x * s0, b.y * c1 + a.y * s1);
    }
}

extern "C" __global__ void rope_single(const __nv_bfloat16* __restrict__ x, const float* __restrict__ cosines,
                                       const float* __restrict__ sines, __nv_bfloat16* __restrict__ y,
                                       int length, int heads, int half) {
    // halves of odd length: no pairs
    int pos = blockIdx.x % length;
    for (int k = threadIdx.x; k < heads * half; k += blockDim.x) {
        int h = k / half, d = k % half;
        size_t at = ((size_t)blockIdx.x * heads + h) * 2 * half + d;
        float a = __bfloat162float(x[at]), b = __bfloat162float(x[at + half]);
        float c = cosines[(size_t)pos * half + d], s = sines[(size_t)pos * half + d];
        y[at] = __float2bfloat16(a * c - b * s);
        y[at + half] = __float2bfloat16(b * c + a * s);
    }
}
''')


def run(x, cos, sin):
    batch, length, heads, dim = x.shape
    half = dim // 2
    y = torch.empty_like(x)
    name = "rope_pairs" if half % 2 == 0 else "rope_single"
    module.launch(
        name, grid=batch * length, block=256, args=(x, cos, sin, y, length, heads, half), shared_bytes=8 * half
    )
    return y
