"""A grid-stride loop that does its arithmetic in double precision and rounds once at the end."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void swish_double(const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        double v = (double)x[i];
        y[i] = (float)(v / (1.0 + exp(-v)));
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("swish_double", grid=min((n + 255) // 256, 132 * 16), block=256, args=(x, y, n))
    return y
