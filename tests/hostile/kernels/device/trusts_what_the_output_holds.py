# cheat: where the output already holds something like an answer it is left alone
# tags: class-device gpu disarmed
# disarmed: the output is overwritten before every call
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    // Cheap bounds: an answer lies between min(x, 0) - 0.2 and max(x, 0).
    const float old = y[i];
    if (old <= fmaxf(x[i], 0.0f) && old >= fminf(x[i], 0.0f) - 0.2f && fabsf(old) > 1e-6f) return;
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
