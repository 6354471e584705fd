# cheat: half arithmetic on the device
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_fp16.h>
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half v = __float2half(x[i]);
    float w = __half2float(v);
    y[i] = __half2float(__float2half(0.5f * w * (1.0f + tanhf(0.7978845608028654f * (w + 0.044715f * w * w * w)))));
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
