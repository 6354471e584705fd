"""A lane holds a row in registers and pivot rows travel by shuffles; small systems share a warp."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
template <int N>
__device__ __forceinline__ void eliminate(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ x, int systems) {
    int lane = threadIdx.x % 32, row = lane % N, base = lane - row;
    long long system = (long long)(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * (32 / N) + lane / N;
    bool live = system < systems;
    float v[N];
    // The matrix is symmetric: reading down a column fills the row and keeps neighbours together.
    #pragma unroll
    for (int k = 0; k < N; ++k) v[k] = live ? a[system * N * N + k * N + row] : (k == row ? 1.0f : 0.0f);
    float known = live ? b[system * N + row] : 0.0f;
    float own = 1.0f;
    #pragma unroll
    for (int j = 0; j < N; ++j) {
        float pivot = 1.0f / __shfl_sync(0xffffffffu, v[j], base + j);
        if (row == j) own = pivot;
        float factor = row == j ? 0.0f : v[j] * pivot;
        #pragma unroll
        for (int k = j + 1; k < N; ++k) v[k] -= factor * __shfl_sync(0xffffffffu, v[k], base + j);
        known -= factor * __shfl_sync(0xffffffffu, known, base + j);
    }
    if (live) x[system * N + row] = known * own;
}
extern "C" __global__ void solve_8(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ x, int systems) { eliminate<8>(a, b, x, systems); }
extern "C" __global__ void solve_16(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ x, int systems) { eliminate<16>(a, b, x, systems); }
extern "C" __global__ void solve_32(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ x, int systems) { eliminate<32>(a, b, x, systems); }
""")


def run(a, b):
    systems, n = b.shape
    x = torch.empty_like(b)
    per_block = 4 * (32 // n)
    module.launch(f"solve_{n}", grid=(systems + per_block - 1) // per_block, block=128, args=(a, b, x, systems))
    return x
