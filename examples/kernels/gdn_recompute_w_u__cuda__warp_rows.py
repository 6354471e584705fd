"""A warp per row of the matrix: lanes hand its coefficients round by shuffle and own two columns of each output."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define D 64
extern "C" __global__ void __launch_bounds__(256) lines(const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ beta, const float* __restrict__ a, const float* __restrict__ g, float* __restrict__ w, float* __restrict__ u, int count) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long slot = blockIdx.x, first = slot / count * D * count + slot % count;
    long long low = first + (long long)lane * count, high = first + (long long)(lane + 32) * count;
    float beta0 = beta[low], beta1 = beta[high], decay0 = expf(g[low]), decay1 = expf(g[high]);
    for (int t = warp; t < D; t += 8) {
        long long at = (first + (long long)t * count) * D;
        float a0 = a[at + lane] * beta0, a1 = a[at + lane + 32] * beta1, b0 = a0 * decay0, b1 = a1 * decay1;
        float w0 = 0.0f, w1 = 0.0f, u0 = 0.0f, u1 = 0.0f;
        #pragma unroll 4
        for (int j = 0; j <= t; ++j) {
            float plain = __shfl_sync(0xffffffffu, j < 32 ? a0 : a1, j % 32);
            float decayed = __shfl_sync(0xffffffffu, j < 32 ? b0 : b1, j % 32);
            long long from = (first + (long long)j * count) * D;
            w0 += decayed * k[from + lane];
            w1 += decayed * k[from + lane + 32];
            u0 += plain * v[from + lane];
            u1 += plain * v[from + lane + 32];
        }
        w[at + lane] = w0;
        w[at + lane + 32] = w1;
        u[at + lane] = u0;
        u[at + lane + 32] = u1;
    }
}
""")


def run(k, v, beta, a, g):
    b, t, h, d = k.shape
    assert d == 64
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    module.launch("lines", grid=b * (t // 64) * h, block=256, args=(k, v, beta, a, g, w, u, h))
    return w, u
