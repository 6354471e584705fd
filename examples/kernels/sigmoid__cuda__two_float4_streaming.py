"""Two float4 per thread, both loaded before either is used, with streaming cache hints and the fast exponential."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define THREADS 256
__device__ __forceinline__ float logistic(float v) { return __fdividef(1.0f, 1.0f + __expf(-v)); }
__device__ __forceinline__ float4 logistic4(float4 v) {
    return make_float4(logistic(v.x), logistic(v.y), logistic(v.z), logistic(v.w));
}
extern "C" __global__ void sigmoid_vec(const float* __restrict__ x, float* __restrict__ y, int n) {
    int quads = n / 4;
    const float4* x4 = (const float4*)x;
    float4* y4 = (float4*)y;
    int first = blockIdx.x * THREADS * 2 + threadIdx.x, second = first + THREADS;
    float4 a, b;
    if (first < quads) a = __ldcs(x4 + first);
    if (second < quads) b = __ldcs(x4 + second);
    if (first < quads) __stcs(y4 + first, logistic4(a));
    if (second < quads) __stcs(y4 + second, logistic4(b));
    int tail = quads * 4 + threadIdx.x;
    if (blockIdx.x == 0 && tail < n) y[tail] = logistic(x[tail]);
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    blocks = max(1, (n // 4 + 511) // 512)
    module.launch("sigmoid_vec", grid=blocks, block=256, args=(x, y, n))
    return y
