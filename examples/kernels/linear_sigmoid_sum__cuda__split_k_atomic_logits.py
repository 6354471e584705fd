"""Logits gather in a zeroed buffer through atomics; one block a row then turns them into the sum."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void logits(const float* x, const float* w, float* z, int m, int n, int k, int span) {
    __shared__ float xs[16][65];
    __shared__ float ws[16][65];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
    int begin = blockIdx.z * span, end = min(k, begin + span);
    float acc[4][4] = {};
    for (int k0 = begin; k0 < end; k0 += 16) {
        for (int e = tid; e < 1024; e += 256) {
            int r = e / 16, q = e % 16;
            xs[q][r] = (m0 + r < m && k0 + q < end) ? x[(long long)(m0 + r) * k + k0 + q] : 0.0f;
            ws[q][r] = (n0 + r < n && k0 + q < end) ? w[(long long)(n0 + r) * k + k0 + q] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < 16; ++q)
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] += xs[q][ty * 4 + i] * ws[q][tx + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int r = m0 + ty * 4 + i, q = n0 + tx + 16 * j;
            if (r < m && q < n) atomicAdd(z + r * n + q, acc[i][j]);
        }
}
extern "C" __global__ void sigmoid_sum(const float* z, const float* bias, float* y, int n) {
    __shared__ float sums[128];
    float s = 0.0f;
    for (int j = threadIdx.x; j < n; j += 128) s += 1.0f / (1.0f + expf(-(z[blockIdx.x * n + j] + bias[j])));
    sums[threadIdx.x] = s;
    for (int d = 64; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) sums[threadIdx.x] += sums[threadIdx.x + d];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}
""")


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    slices = max(1, min(32, k // 64))
    span = (k + slices - 1) // slices
    z = torch.zeros((m, n), device=x.device, dtype=torch.float32)
    y = torch.empty((m, 1), device=x.device, dtype=torch.float32)
    module.launch(
        "logits", grid=((n + 63) // 64, (m + 63) // 64, slices), block=256, args=(x, weight, z, m, n, k, span)
    )
    module.launch("sigmoid_sum", grid=m, block=128, args=(z, bias, y, n))
    return y
