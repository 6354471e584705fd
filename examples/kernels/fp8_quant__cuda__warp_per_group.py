"""A warp reduces a group by shuffles and converts it from registers or a second read."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#include <cuda_fp8.h>
extern "C" __global__ void quantise(const __nv_bfloat16* __restrict__ x, unsigned char* __restrict__ q, float* __restrict__ scales, int groups, int size) {
    int lane = threadIdx.x % 32;
    int g = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (g >= groups) return;
    long long base = (long long)g * size;
    float peak = 1e-10f;
    for (int i = lane; i < size; i += 32) peak = fmaxf(peak, fabsf(__bfloat162float(x[base + i])));
    for (int d = 16; d > 0; d /= 2) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, d));
    float scale = peak / 448.0f;
    for (int i = lane; i < size; i += 32) {
        float v = fminf(fmaxf(__bfloat162float(x[base + i]) / scale, -448.0f), 448.0f);
        q[base + i] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    }
    if (lane == 0) scales[g] = scale;
}
""")


def run(x, group):
    tokens, hidden = x.shape
    q = torch.empty((tokens, hidden), device=x.device, dtype=torch.float8_e4m3fn)
    scales = torch.empty((tokens, hidden // group), device=x.device, dtype=torch.float32)
    groups = tokens * (hidden // group)
    module.launch("quantise", grid=(groups + 7) // 8, block=256, args=(x, q, scales, groups, group))
    return q, scales
