"""128 by 128 block tiles, eight by eight outputs a thread, the A tile stored transposed."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define BM 128
#define BN 128
#define BK 8
extern "C" __global__ void __launch_bounds__(256) sgemm(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float at[BK][BM + 4];
    __shared__ float bs[BK][BN + 4];
    int tid = threadIdx.x;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int tr = tid / 16, tc = tid % 16;
    float acc[8][8];
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) acc[i][j] = 0.0f;
    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int e = tid; e < BM * BK; e += 256) {
            int r = e / BK, q = e % BK;
            at[q][r] = (row0 + r < m && k0 + q < k) ? a[(row0 + r) * k + k0 + q] : 0.0f;
        }
        for (int e = tid; e < BK * BN; e += 256) {
            int q = e / BN, r = e % BN;
            bs[q][r] = (k0 + q < k && col0 + r < n) ? b[(k0 + q) * n + col0 + r] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < BK; ++q) {
            float ra[8], rb[8];
            #pragma unroll
            for (int i = 0; i < 8; ++i) { ra[i] = at[q][tr + 16 * i]; rb[i] = bs[q][tc + 16 * i]; }
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] += ra[i] * rb[j];
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            int r = row0 + tr + 16 * i, q = col0 + tc + 16 * j;
            if (r < m && q < n) c[r * n + q] = acc[i][j];
        }
}
""")


def run(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    module.launch("sgemm", grid=((n + 127) // 128, (m + 127) // 128), block=256, args=(a, b, c, m, n, k))
    return c
