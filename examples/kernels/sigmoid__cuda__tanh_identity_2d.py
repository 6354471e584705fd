"""A thread per element of a two-dimensional grid; the logistic function written as a shifted hyperbolic tangent."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void sigmoid_by_tanh(const float* x, float* y, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    long long at = (long long)row * cols + col;
    y[at] = fmaf(0.5f, tanhf(0.5f * x[at]), 0.5f);
}
""")


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    grid = ((cols + 31) // 32, (rows + 7) // 8)
    module.launch("sigmoid_by_tanh", grid=grid, block=(32, 8), args=(x, y, rows, cols))
    return y
