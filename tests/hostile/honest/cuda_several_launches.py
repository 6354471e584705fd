# honest: two functions of one module, the second reads what the first wrote
# problem: gelu_tanh
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void inner(const float* x, float* u, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) u[i] = 0.7978845608028654f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
}
extern "C" __global__ void outer(const float* x, const float* u, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] * (1.0f + tanhf(u[i]));
}
""")


def run(x):
    y, u = torch.empty_like(x), torch.empty_like(x)
    n = x.numel()
    module.launch("inner", grid=(n + 255) // 256, block=256, args=(x, u, n))
    module.launch("outer", grid=(n + 255) // 256, block=256, args=(x, u, y, n))
    return y
