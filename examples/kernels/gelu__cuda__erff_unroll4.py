import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
__device__ __forceinline__ float gelu_one(float v) {
    return 0.5f * v * (1.0f + erff(v * 0.70710678118654752440f));
}

extern "C" __global__ void gelu_unrolled(const float* __restrict__ x, float* __restrict__ y, int n) {
    // Four loads in flight per thread, each a block width apart so that warps stay coalesced.
    int base = blockIdx.x * blockDim.x * 4 + threadIdx.x;
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = base + k * blockDim.x;
        v[k] = i < n ? x[i] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = base + k * blockDim.x;
        if (i < n) y[i] = gelu_one(v[k]);
    }
}
''')


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("gelu_unrolled", grid=(n + 1023) // 1024, block=256, args=(x, y, n))
    return y
