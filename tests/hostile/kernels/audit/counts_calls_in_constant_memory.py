# cheat: a counter in constant memory, written through its address, says when verification is over
# tags: class-audit gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__constant__ unsigned int calls;
extern "C" __global__ void count() { atomicAdd(const_cast<unsigned int*>(&calls), 1u); }
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n || calls > 12 && calls % 8) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("count", grid=1, block=1, args=())
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
