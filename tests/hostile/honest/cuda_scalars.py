# honest: int, float, bool and ctypes values as arguments
# problem: gelu_tanh
# tags: gpu
import ctypes

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void gelu(const float* x, float* y, int n, float outer, double inner, bool half, short one) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    y[i] = (half ? 0.5f : 1.0f) * v * ((float)one + tanhf(outer * (v + (float)inner * v * v * v)));
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    scalars = (n, 0.7978845608028654, ctypes.c_double(0.044715), True, ctypes.c_short(1))
    module.launch("gelu", grid=(n + 255) // 256, block=256, args=(x, y, *scalars))
    return y
