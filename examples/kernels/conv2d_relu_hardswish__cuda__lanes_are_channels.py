"""A lane is an output channel with its weights in registers; pixels come by broadcast from shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define STRIP 8
#define GROUPS 4
#define SPAN 32
extern "C" __global__ void __launch_bounds__(256) lanes(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w, const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ y, int c, int h, int wide, int o) {
    extern __shared__ float shared_lines[];
    __shared__ float out[64][SPAN + 1];
    int own = threadIdx.x % 64, group = threadIdx.x / 64, q = blockIdx.y * 64 + own;
    int oh = h - 2, ow = wide - 2, spans = (ow + SPAN - 1) / SPAN;
    int col0 = blockIdx.x % spans * SPAN, row = blockIdx.x / spans;
    const __nv_bfloat16* p = x + (long long)blockIdx.z * c * h * wide;
    for (int i = threadIdx.x; i < c * 3 * (SPAN + 2); i += 256) {
        int col = col0 + i % (SPAN + 2), line = i / (SPAN + 2);
        shared_lines[i] = col < wide ? __bfloat162float(p[(line / 3 * h + row + line % 3) * wide + col]) : 0.0f;
    }
    __syncthreads();
    float acc[STRIP] = {};
    for (int ch = 0; ch < c; ++ch)
        #pragma unroll
        for (int a = 0; a < 3; ++a) {
            float f[3], v[STRIP + 2];
            #pragma unroll
            for (int b = 0; b < 3; ++b) f[b] = q < o ? __bfloat162float(w[(q * c + ch) * 9 + a * 3 + b]) : 0.0f;
            #pragma unroll
            for (int i = 0; i < STRIP + 2; ++i) v[i] = shared_lines[(ch * 3 + a) * (SPAN + 2) + group * STRIP + i];
            #pragma unroll
            for (int i = 0; i < STRIP; ++i) acc[i] += v[i] * f[0] + v[i + 1] * f[1] + v[i + 2] * f[2];
        }
    float add = q < o ? __bfloat162float(bias[q]) : 0.0f;
    #pragma unroll
    for (int i = 0; i < STRIP; ++i) {
        float v = fmaxf(acc[i] + add, 0.0f);
        out[own][group * STRIP + i] = v * fminf((v + 3.0f) * (1.0f / 6.0f), 1.0f);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * SPAN; i += 256) {
        int channel = blockIdx.y * 64 + i / SPAN, col = col0 + i % SPAN;
        if (channel < o && col < ow) y[(((long long)blockIdx.z * o + channel) * oh + row) * ow + col] = __float2bfloat16(out[i / SPAN][i % SPAN]);
    }
}
""")


def run(x, weight, conv_bias):
    n, c, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, h - 2, w - 2), device=x.device, dtype=x.dtype)
    grid = ((w - 2 + 31) // 32 * (h - 2), (o + 63) // 64, n)
    module.launch(
        "lanes", grid=grid, block=256, args=(x, weight, conv_bias, y, c, h, w, o), shared_bytes=4 * c * 3 * 34
    )
    return y
