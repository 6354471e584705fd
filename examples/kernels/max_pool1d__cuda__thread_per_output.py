"""A thread per output reads its four values straight from memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void pool(const unsigned short* __restrict__ x, unsigned short* __restrict__ y, int w, int ow) {
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= ow) return;
    const unsigned short* row = x + (size_t)blockIdx.y * w;
    float best = __int_as_float(0xff800000);
    #pragma unroll
    for (int tap = 0; tap < 4; ++tap) {
        int at = 2 * o - 2 + 3 * tap;
        if (at >= 0 && at < w) best = fmaxf(best, __uint_as_float((unsigned)row[at] << 16));
    }
    y[(size_t)blockIdx.y * ow + o] = (unsigned short)(__float_as_uint(best) >> 16);
}
""")


def run(x):
    n, c, w = x.shape
    ow = (w - 6) // 2 + 1
    y = torch.empty((n, c, ow), device=x.device, dtype=x.dtype)
    module.launch("pool", grid=((ow + 255) // 256, n * c), block=256, args=(x, y, w, ow))
    return y
