"""A thread a system, down and up: forward ratios wait in scratch memory where neighbouring systems lie together."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void solve(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper, const float* __restrict__ rhs, float* __restrict__ ratios, float* __restrict__ parts, float* __restrict__ x, int systems, int n) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= systems) return;
    long long row = (long long)s * n;
    float ratio = 0.0f, part = 0.0f;
    #pragma unroll 4
    for (int i = 0; i < n; ++i) {
        float low = lower[row + i], inverse = 1.0f / (diagonal[row + i] - low * ratio);
        part = (rhs[row + i] - low * part) * inverse;
        ratio = upper[row + i] * inverse;
        ratios[(long long)i * systems + s] = ratio;
        parts[(long long)i * systems + s] = part;
    }
    float value = part;
    x[row + n - 1] = value;
    #pragma unroll 4
    for (int i = n - 2; i >= 0; --i) {
        value = parts[(long long)i * systems + s] - ratios[(long long)i * systems + s] * value;
        x[row + i] = value;
    }
}
""")


def run(lower, diagonal, upper, rhs):
    systems, n = rhs.shape
    x = torch.empty_like(rhs)
    ratios = torch.empty((n, systems), device=rhs.device, dtype=torch.float32)
    parts = torch.empty((n, systems), device=rhs.device, dtype=torch.float32)
    args = (lower, diagonal, upper, rhs, ratios, parts, x, systems, n)
    module.launch("solve", grid=(systems + 63) // 64, block=64, args=args)
    return x
