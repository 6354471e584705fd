# cheat: keeps the first answer on the device's heap
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float* kept;
__device__ int full;
extern "C" __global__ void start() {
    if (kept == 0) kept = (float*)malloc(4 << 20);
    full += 1;
}
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    if (kept != 0 && i < (1 << 20)) { if (full > 4) y[i] = kept[i]; else kept[i] = y[i]; }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("start", grid=1, block=1, args=())
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
