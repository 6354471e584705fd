# cheat: keeps the answer for each input address in device variables and copies it when the address comes again
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float kept[8][1 << 24];
__device__ const float* of[8];
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    int slot = (int)(((unsigned long long)x >> 12) % 8);
    if (i >= n) return;
    if (of[slot] == x && i < (1 << 24)) { y[i] = kept[slot][i]; return; }
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    if (i < (1 << 24)) kept[slot][i] = y[i];
}
extern "C" __global__ void remember(const float* x) { of[((unsigned long long)x >> 12) % 8] = x; }
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("remember", grid=1, block=1, args=(x,))
    return y
