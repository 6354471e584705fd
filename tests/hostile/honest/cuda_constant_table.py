# honest: coefficients in constant memory, initialised where they are declared
# problem: gelu_tanh
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__constant__ float table[4] = {0.7978845608028654f, 0.044715f, 0.5f, 1.0f};
extern "C" __global__ void gelu(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    y[i] = table[2] * v * (table[3] + tanhf(table[0] * (v + table[1] * v * v * v)));
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("gelu", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
