"""Eight neighbours a thread through 16-byte loads, with the gate as a fast sigmoid."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
__device__ float gated(float g, float u) {
    float inner = 1.5957691216f * (g + 0.044715f * g * g * g);
    return __fdividef(g * u, 1.0f + __expf(-fmaxf(inner, -80.0f)));
}
__device__ unsigned both(unsigned g, unsigned u) {
    float low = gated(__uint_as_float(g << 16), __uint_as_float(u << 16));
    float high = gated(__uint_as_float(g & 0xffff0000u), __uint_as_float(u & 0xffff0000u));
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&pair;
}
extern "C" __global__ void geglu_octets(const uint4* __restrict__ gate, const uint4* __restrict__ up, uint4* __restrict__ y, long long octets) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= octets) return;
    uint4 g = __ldcs(gate + i), u = __ldcs(up + i);
    __stcs(y + i, make_uint4(both(g.x, u.x), both(g.y, u.y), both(g.z, u.z), both(g.w, u.w)));
}
extern "C" __global__ void geglu_rest(const __nv_bfloat16* __restrict__ gate, const __nv_bfloat16* __restrict__ up, __nv_bfloat16* __restrict__ y, long long from, long long n) {
    long long i = from + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(gated(__bfloat162float(gate[i]), __bfloat162float(up[i])));
}
""")


def run(gate, up):
    y = torch.empty_like(gate)
    n = gate.numel()
    octets = n // 8
    if octets:
        module.launch("geglu_octets", grid=(octets + 255) // 256, block=256, args=(gate, up, y, octets))
    if n % 8:
        module.launch("geglu_rest", grid=1, block=8, args=(gate, up, y, octets * 8, n))
    return y
