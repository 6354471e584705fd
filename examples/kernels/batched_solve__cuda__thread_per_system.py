"""One thread a system: a Cholesky factor in scratch memory, laid out so that neighbouring systems lie side by side."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define AT(i, j) factor[((long long)((i) * ((i) + 1) / 2 + (j))) * systems + s]
extern "C" __global__ void solve(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ factor, float* __restrict__ y, float* __restrict__ x, int systems, int n) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= systems) return;
    const float* mine = a + (long long)s * n * n;
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j <= i; ++j) {
            float sum = mine[i * n + j];
            #pragma unroll 8
            for (int k = 0; k < j; ++k) sum -= AT(i, k) * AT(j, k);
            AT(i, j) = i == j ? rsqrtf(sum) : sum * AT(j, j);
        }
    }
    // The diagonal holds reciprocals.
    for (int i = 0; i < n; ++i) {
        float sum = b[(long long)s * n + i];
        for (int k = 0; k < i; ++k) sum -= AT(i, k) * y[(long long)k * systems + s];
        y[(long long)i * systems + s] = sum * AT(i, i);
    }
    for (int i = n - 1; i >= 0; --i) {
        float sum = y[(long long)i * systems + s];
        for (int k = i + 1; k < n; ++k) sum -= AT(k, i) * x[(long long)s * n + k];
        x[(long long)s * n + i] = sum * AT(i, i);
    }
}
""")


def run(a, b):
    systems, n = b.shape
    x = torch.empty_like(b)
    factor = torch.empty((n * (n + 1) // 2, systems), device=b.device, dtype=torch.float32)
    y = torch.empty((n, systems), device=b.device, dtype=torch.float32)
    module.launch("solve", grid=(systems + 63) // 64, block=64, args=(a, b, factor, y, x, systems, n))
    return x
