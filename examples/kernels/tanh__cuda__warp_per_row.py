"""A warp owns a whole row and its lanes stride along it, with the library's tanhf."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void tanh_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const float* from = x + (long long)row * cols;
    float* to = y + (long long)row * cols;
    for (int c = threadIdx.x % 32; c < cols; c += 32) to[c] = tanhf(from[c]);
}
""")


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    module.launch("tanh_rows", grid=(rows + 3) // 4, block=128, args=(x, y, rows, cols))
    return y
