"""Tensor cores with every operand cut into two tf32 parts; the three large products are summed."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <mma.h>
#define T 64
#define BK 32
#define LDA 36
#define LDB 68
namespace w = nvcuda::wmma;
extern "C" __global__ void __launch_bounds__(128) product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    __shared__ __align__(32) float as[T * LDA];
    __shared__ __align__(32) float bs[BK * LDB];
    __shared__ __align__(32) float out[T * LDB];
    int tid = threadIdx.x, warp = tid / 32, wr = warp / 2 * 32, wc = warp % 2 * 32;
    int row0 = blockIdx.y * T, col0 = blockIdx.x * T;
    w::fragment<w::accumulator, 16, 16, 8, float> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) w::fill_fragment(acc[i][j], 0.0f);
    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int e = tid; e < T * BK; e += 128) {
            int r = e / BK, q = e % BK;
            as[r * LDA + q] = row0 + r < m && k0 + q < k ? a[(long long)(row0 + r) * k + k0 + q] : 0.0f;
        }
        for (int e = tid; e < BK * T; e += 128) {
            int q = e / T, r = e % T;
            bs[q * LDB + r] = k0 + q < k && col0 + r < n ? b[(long long)(k0 + q) * n + col0 + r] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < BK; q += 8) {
            w::fragment<w::matrix_a, 16, 16, 8, w::precision::tf32, w::row_major> ah[2], al[2];
            w::fragment<w::matrix_b, 16, 16, 8, w::precision::tf32, w::row_major> bh[2], bl[2];
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                w::load_matrix_sync(ah[i], as + (wr + 16 * i) * LDA + q, LDA);
                w::load_matrix_sync(bh[i], bs + q * LDB + wc + 16 * i, LDB);
                #pragma unroll
                for (int e = 0; e < ah[i].num_elements; ++e) {
                    float v = ah[i].x[e];
                    ah[i].x[e] = w::__float_to_tf32(v);
                    al[i].x[e] = w::__float_to_tf32(v - ah[i].x[e]);
                }
                #pragma unroll
                for (int e = 0; e < bh[i].num_elements; ++e) {
                    float v = bh[i].x[e];
                    bh[i].x[e] = w::__float_to_tf32(v);
                    bl[i].x[e] = w::__float_to_tf32(v - bh[i].x[e]);
                }
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    w::mma_sync(acc[i][j], al[i], bh[j], acc[i][j]);
                    w::mma_sync(acc[i][j], ah[i], bl[j], acc[i][j]);
                    w::mma_sync(acc[i][j], ah[i], bh[j], acc[i][j]);
                }
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) w::store_matrix_sync(out + (wr + 16 * i) * LDB + wc + 16 * j, acc[i][j], LDB, w::mem_row_major);
    __syncthreads();
    for (int e = tid; e < T * T; e += 128) {
        int r = e / T, q = e % T;
        if (row0 + r < m && col0 + q < n) c[(long long)(row0 + r) * n + col0 + q] = out[r * LDB + q];
    }
}
""")


def run(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    module.launch("product", grid=((n + 63) // 64, (m + 63) // 64), block=128, args=(a, b, c, m, n, k))
    return c
