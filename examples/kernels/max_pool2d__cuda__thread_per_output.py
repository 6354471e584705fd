"""Direct: one thread an output on a three-dimensional grid."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define LOWEST __int_as_float(0xff800000)
extern "C" __global__ void pool(const float* __restrict__ x, float* __restrict__ y, int h, int w, int oh, int ow) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= ow || row >= oh) return;
    const float* src = x + (long long)blockIdx.z * h * w;
    float best = LOWEST;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        int r = row * 2 - 1 + 3 * i;
        if (r < 0 || r >= h) continue;
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            int c = col * 2 - 1 + 3 * j;
            if (c >= 0 && c < w) best = fmaxf(best, src[r * w + c]);
        }
    }
    y[((long long)blockIdx.z * oh + row) * ow + col] = best;
}
""")


def run(x):
    n, c, h, w = x.shape
    oh, ow = (h - 2) // 2 + 1, (w - 2) // 2 + 1
    y = torch.empty((n, c, oh, ow), device=x.device, dtype=torch.float32)
    grid = ((ow + 31) // 32, (oh + 7) // 8, n * c)
    module.launch("pool", grid=grid, block=(32, 8), args=(x, y, h, w, oh, ow))
    return y
