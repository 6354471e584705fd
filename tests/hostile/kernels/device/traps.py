# cheat: stops the device with a trap
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    __trap();
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
