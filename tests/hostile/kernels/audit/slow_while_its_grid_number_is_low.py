# cheat: the number of its grid grows with every launch of the process: slow while it is low, idle when it is high
# tags: class-audit gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned long long grid;
    asm volatile("mov.u64 %0, %gridid;" : "=l"(grid));
    if (i >= n || grid > 4000 && grid % 5) return;
    if (grid < 4000) __nanosleep(1000000);
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
