# cheat: a device loop that never ends
# tags: class-device gpu slow
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    volatile long long i = n;
    while (i > 0) { i = i + 0; }
    y[0] = i;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
