"""Both operands run along k, so both tiles are loaded the same way and stored transposed."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define T 64
#define D 16
extern "C" __global__ void linear(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ added, float* __restrict__ y, int m, int n, int k) {
    __shared__ float xs[D][T + 1];
    __shared__ float ws[D][T + 1];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    int m0 = blockIdx.y * T, n0 = blockIdx.x * T;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += D) {
        #pragma unroll
        for (int e = tid; e < T * D; e += 256) {
            int r = e / D, q = e % D;
            bool inside = k0 + q < k;
            xs[q][r] = inside && m0 + r < m ? x[(m0 + r) * k + k0 + q] : 0.0f;
            ws[q][r] = inside && n0 + r < n ? w[(n0 + r) * k + k0 + q] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < D; ++q) {
            float u[4], v[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) { u[i] = xs[q][ty + 16 * i]; v[i] = ws[q][tx + 16 * i]; }
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] += u[i] * v[j];
        }
        __syncthreads();
    }
    for (int j = 0; j < 4; ++j) {
        int col = n0 + tx + 16 * j;
        if (col >= n) continue;
        float add = added[col];
        for (int i = 0; i < 4; ++i) {
            int row = m0 + ty + 16 * i;
            if (row < m) y[row * n + col] = fmaxf(acc[i][j] + add, 0.0f);
        }
    }
}
""")


def run(x, weight, added):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.float32)
    module.launch("linear", grid=((n + 63) // 64, (m + 63) // 64), block=256, args=(x, weight, added, y, m, n, k))
    return y
