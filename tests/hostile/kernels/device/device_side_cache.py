# cheat: keeps the beginning of the first answer in a small device variable
# tags: class-device gpu disarmed
# disarmed: its variables get their first values again before every call
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float kept[1000];
__device__ int full;
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    if (i < 1000) { if (full > 3) y[i] = kept[i]; else kept[i] = y[i]; }
    if (i == 0) full += 1;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
