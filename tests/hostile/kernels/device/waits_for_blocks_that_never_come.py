# cheat: a barrier over a grid far larger than the device: blocks wait for others that cannot start
# tags: class-device gpu slow
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ unsigned int arrived;
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1u);
        while (*(volatile unsigned int*)&arrived < gridDim.x) { }
    }
    __syncthreads();
    if (i >= n) return;
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
