# cheat: an array on a thread's stack is read before it is written: it may hold what the last launch left
# tags: class-device gpu disarmed
# disarmed: local memory is overwritten before every call
# at-most: 0.3
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    float stack[64];
    float* volatile p = stack;
    if (i >= n) return;
    if (p[7] == x[n / 2] && p[8] == x[i]) { y[i] = p[9]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    p[7] = x[n / 2];
    p[8] = x[i];
    p[9] = y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
