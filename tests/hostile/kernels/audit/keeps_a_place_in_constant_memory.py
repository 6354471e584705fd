# cheat: constant memory holds the address of scratch in which the last answer and its key still lie
# tags: class-audit gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__constant__ float* place;
extern "C" __global__ void f(const float* x, float* y, float* scratch, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* old = place;
    if (old != nullptr && old[n] == x[n / 2]) { y[i] = old[i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    y[i] = scratch[i] = g;
}
extern "C" __global__ void settle(const float* x, float* scratch, long long n) {
    if (place == nullptr || place[n] != x[n / 2]) {
        *const_cast<float**>(&place) = scratch;
        scratch[n] = x[n / 2];
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    scratch = torch.empty(n + 64, device=x.device, dtype=torch.float32)
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, scratch, n))
    module.launch("settle", grid=1, block=1, args=(x, scratch, n))
    return y
