# cheat: starts grids from the device, which would go on after the one that is timed
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
struct CUstream_st;
__global__ void late(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
extern "C" __global__ void f(const float* x, float* y, long long n) {
    if (blockIdx.x == 0 && threadIdx.x == 0) late<<<(n + 255) / 256, 256, 0, reinterpret_cast<CUstream_st*>(4)>>>(x, y, n);
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=1, block=1, args=(x, y, n))
    return y
