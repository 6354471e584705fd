"""A block of 512 threads per row, scalar coalesced loads and the accurate exponential."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void swish_row(const float* __restrict__ x, float* __restrict__ y, int cols) {
    long long base = (long long)blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float v = x[base + c];
        y[base + c] = v / (1.0f + expf(-v));
    }
}
""")


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    module.launch("swish_row", grid=rows, block=512, args=(x, y, cols))
    return y
