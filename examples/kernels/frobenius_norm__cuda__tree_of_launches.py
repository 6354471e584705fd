"""A shared-memory tree reduces by 2048 per launch until one number is left, then a last kernel divides."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void reduce(const float* from, float* to, int n, int squares) {
    __shared__ float tree[1024];
    int i = blockIdx.x * 2048 + threadIdx.x;
    float a = i < n ? from[i] : 0.0f, b = i + 1024 < n ? from[i + 1024] : 0.0f;
    tree[threadIdx.x] = squares ? a * a + b * b : a + b;
    __syncthreads();
    for (int half = 512; half > 0; half /= 2) {
        if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) to[blockIdx.x] = tree[0];
}
extern "C" __global__ void divide(const float* __restrict__ x, const float* square, float* __restrict__ y, int n) {
    float length = sqrtf(*square);
    for (int k = 0; k < 4; ++k) {
        int i = (blockIdx.x * 4 + k) * blockDim.x + threadIdx.x;
        if (i < n) y[i] = __fdividef(x[i], length);
    }
}
""")


def run(x):
    n = x.numel()
    y = torch.empty_like(x)
    level, count, squares = x, n, 1
    while squares or count > 1:
        blocks = (count + 2047) // 2048
        above = torch.empty((blocks,), device=x.device, dtype=torch.float32)
        module.launch("reduce", grid=blocks, block=1024, args=(level, above, count, squares))
        level, count, squares = above, blocks, 0
    module.launch("divide", grid=(n + 1023) // 1024, block=256, args=(x, level, y, n))
    return y
