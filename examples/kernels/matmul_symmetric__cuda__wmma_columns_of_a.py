"""Rows of A serve as columns: wmma reads the left operand column-major from 128 by 64 tiles."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#include <mma.h>
#define BM 128
#define BN 64
#define D 32
#define LDA 144
#define LDB 80
namespace w = nvcuda::wmma;
extern "C" __global__ void __launch_bounds__(256) product(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b, __nv_bfloat16* __restrict__ c, int n) {
    __shared__ __align__(32) __nv_bfloat16 as[D * LDA];
    __shared__ __align__(32) __nv_bfloat16 bs[D * LDB];
    __shared__ __align__(32) float out[8][16 * 24];
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, wr = warp / 2 * 32, wc = warp % 2 * 32;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    uint4 zero = make_uint4(0, 0, 0, 0);
    w::fragment<w::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) w::fill_fragment(acc[i][j], 0.0f);
    for (int k0 = 0; k0 < n; k0 += D) {
        for (int e = tid; e < BM * D / 8; e += 256) {
            int q = e / (BM / 8), r = e % (BM / 8) * 8;
            *(uint4*)(as + q * LDA + r) = row0 + r < n && k0 + q < n ? *(const uint4*)(a + (long long)(k0 + q) * n + row0 + r) : zero;
        }
        {
            int q = tid / (BN / 8), r = tid % (BN / 8) * 8;
            *(uint4*)(bs + q * LDB + r) = col0 + r < n && k0 + q < n ? *(const uint4*)(b + (long long)(k0 + q) * n + col0 + r) : zero;
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < D; q += 16) {
            w::fragment<w::matrix_a, 16, 16, 16, __nv_bfloat16, w::col_major> x[2];
            w::fragment<w::matrix_b, 16, 16, 16, __nv_bfloat16, w::row_major> y[2];
            for (int i = 0; i < 2; ++i) {
                w::load_matrix_sync(x[i], as + q * LDA + wr + 16 * i, LDA);
                w::load_matrix_sync(y[i], bs + q * LDB + wc + 16 * i, LDB);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) w::mma_sync(acc[i][j], x[i], y[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            w::store_matrix_sync(out[warp], acc[i][j], 24, w::mem_row_major);
            __syncwarp();
            for (int e = lane; e < 128; e += 32) {
                int r = e / 8, q = e % 8 * 2, row = row0 + wr + 16 * i + r, col = col0 + wc + 16 * j + q;
                if (row < n && col < n)
                    *(__nv_bfloat162*)(c + (long long)row * n + col) = __floats2bfloat162_rn(out[warp][r * 24 + q], out[warp][r * 24 + q + 1]);
            }
            __syncwarp();
        }
}
""")


def run(a, b):
    n = a.shape[0]
    c = torch.empty_like(a)
    module.launch("product", grid=((n + 63) // 64, (n + 127) // 128), block=256, args=(a, b, c, n))
    return c
