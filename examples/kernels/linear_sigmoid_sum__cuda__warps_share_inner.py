"""Eight warps of a block each take an eighth of the inner dimension of an 8 by 4 patch and meet in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define RM 8
#define RN 4
extern "C" __global__ void patch(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias, float* y, int m, int n, int k) {
    __shared__ float part[8][RM * RN];
    __shared__ float gate[RM * RN];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int m0 = blockIdx.y * RM, n0 = blockIdx.x * RN;
    const float* xr[RM];
    const float* wr[RN];
    // Rows past the edge read the last row again; their results are dropped.
    for (int i = 0; i < RM; ++i) xr[i] = x + (long long)min(m0 + i, m - 1) * k;
    for (int j = 0; j < RN; ++j) wr[j] = w + (long long)min(n0 + j, n - 1) * k;
    float acc[RM][RN] = {};
    for (int q = threadIdx.x; q < k; q += 256) {
        float v[RN];
        #pragma unroll
        for (int j = 0; j < RN; ++j) v[j] = wr[j][q];
        #pragma unroll
        for (int i = 0; i < RM; ++i) {
            float u = xr[i][q];
            #pragma unroll
            for (int j = 0; j < RN; ++j) acc[i][j] = fmaf(u, v[j], acc[i][j]);
        }
    }
    #pragma unroll
    for (int i = 0; i < RM; ++i)
        #pragma unroll
        for (int j = 0; j < RN; ++j) {
            float s = acc[i][j];
            for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
            if (lane == 0) part[warp][i * RN + j] = s;
        }
    __syncthreads();
    if (threadIdx.x < RM * RN) {
        float s = 0.0f;
        for (int v = 0; v < 8; ++v) s += part[v][threadIdx.x];
        int col = n0 + threadIdx.x % RN;
        gate[threadIdx.x] = col < n ? 1.0f / (1.0f + expf(-(s + bias[col]))) : 0.0f;
    }
    __syncthreads();
    if (threadIdx.x < RM && m0 + threadIdx.x < m) {
        float s = 0.0f;
        for (int j = 0; j < RN; ++j) s += gate[threadIdx.x * RN + j];
        atomicAdd(y + m0 + threadIdx.x, s);
    }
}
""")


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.zeros((m, 1), device=x.device, dtype=torch.float32)
    module.launch("patch", grid=((n + 3) // 4, (m + 7) // 8), block=256, args=(x, weight, bias, y, m, n, k))
    return y
