"""Classical 64 by 64 tiles with four by four register blocks, batch on grid z."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void bmm(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[16][64 + 1];
    __shared__ float bs[16][64];
    a += (long long)blockIdx.z * m * k;
    b += (long long)blockIdx.z * k * n;
    c += (long long)blockIdx.z * m * n;
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int e = tid; e < 1024; e += 256) {
            int r = e / 16, q = e % 16;
            as[q][r] = (row0 + r < m && k0 + q < k) ? a[(row0 + r) * k + k0 + q] : 0.0f;
            int bq = e / 64, br = e % 64;
            bs[bq][br] = (k0 + bq < k && col0 + br < n) ? b[(k0 + bq) * n + col0 + br] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < 16; ++q) {
            float u[4], v[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) { u[i] = as[q][ty * 4 + i]; v[i] = bs[q][tx + 16 * i]; }
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(u[i], v[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int r = row0 + ty * 4 + i, q = col0 + tx + 16 * j;
            if (r < m && q < n) c[r * n + q] = acc[i][j];
        }
}
""")


def run(a, b):
    batch, m, k = a.shape
    n = b.shape[2]
    c = torch.empty((batch, m, n), device=a.device, dtype=torch.float32)
    module.launch("bmm", grid=((n + 63) // 64, (m + 63) // 64, batch), block=256, args=(a, b, c, m, n, k))
    return c
