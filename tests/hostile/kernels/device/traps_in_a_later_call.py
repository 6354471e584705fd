# cheat: works until its grid number is high, then traps, so that the context dies in somebody else's call
# tags: class-device gpu disarmed
# disarmed: it works while it is measured; a trap would end its own worker and be its own failure
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned long long grid;
    asm volatile("mov.u64 %0, %gridid;" : "=l"(grid));
    if (i >= n) return;
    if (grid > 2000) __trap();
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
