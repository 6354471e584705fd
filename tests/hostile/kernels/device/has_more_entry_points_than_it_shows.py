# cheat: one module exports an honest and an empty function under names that differ by a look-alike letter
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void gelu(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
extern "C" __global__ void ge1u(const float* x, float* y, long long n) { }
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("ge1u", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
