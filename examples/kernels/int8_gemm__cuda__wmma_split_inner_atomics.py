"""Warp-matrix tiles of half the inner dimension each, added into an int32 buffer with atomics; a flat kernel scales."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#include <mma.h>
#define BM 64
#define BN 64
#define BK 64
extern "C" __global__ void __launch_bounds__(128) add_products(const signed char* __restrict__ x, const signed char* __restrict__ w, int* __restrict__ sums, int m, int n, int k, int span) {
    __shared__ __align__(128) signed char xs[BM * BK];
    __shared__ __align__(128) signed char ws[BN * BK];
    __shared__ __align__(128) int out[BM * BN];
    int tid = threadIdx.x, warp = tid / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
    int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, begin = blockIdx.z * span, end = min(begin + span, k);
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, int> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) nvcuda::wmma::fill_fragment(acc[i][j], 0);
    for (int k0 = begin; k0 < end; k0 += BK) {
        for (int e = tid; e < BM * BK / 16; e += 128) {
            int r = e / (BK / 16), q = e % (BK / 16) * 16;
            int4 u = make_int4(0, 0, 0, 0), v = u;
            if (m0 + r < m && k0 + q < end) u = *(const int4*)(x + (long long)(m0 + r) * k + k0 + q);
            if (n0 + r < n && k0 + q < end) v = *(const int4*)(w + (long long)(n0 + r) * k + k0 + q);
            // Panels sixteen bytes wide: a fragment is 256 bytes in a row.
            *(int4*)(xs + q * BM + r * 16) = u;
            *(int4*)(ws + q * BN + r * 16) = v;
        }
        __syncthreads();
        for (int q = 0; q < BK; q += 16) {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, signed char, nvcuda::wmma::row_major> a[2];
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, signed char, nvcuda::wmma::col_major> b[2];
            for (int i = 0; i < 2; ++i) {
                nvcuda::wmma::load_matrix_sync(a[i], xs + q * BM + (wm + 16 * i) * 16, 16);
                nvcuda::wmma::load_matrix_sync(b[i], ws + q * BN + (wn + 16 * i) * 16, 16);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) nvcuda::wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            nvcuda::wmma::store_matrix_sync(out + (wm + 16 * i) * BN + wn + 16 * j, acc[i][j], BN, nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int e = tid; e < BM * BN; e += 128) {
        int row = m0 + e / BN, col = n0 + e % BN;
        if (row < m && col < n) atomicAdd(&sums[(long long)row * n + col], out[e]);
    }
}
extern "C" __global__ void scale_sums(const int* sums, const float* xscale, const float* wscale, __nv_bfloat16* y, int n) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col < n) y[(long long)row * n + col] = __float2bfloat16((float)sums[(long long)row * n + col] * xscale[row] * wscale[col]);
}
""")


def run(x, weight, x_scale, weight_scale):
    m, k = x.shape
    n = weight.shape[0]
    sums = torch.zeros((m, n), device=x.device, dtype=torch.int32)
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    span = (k // 2 + 63) // 64 * 64
    grid = ((n + 63) // 64, (m + 63) // 64, 2)
    module.launch("add_products", grid=grid, block=128, args=(x, weight, sums, m, n, k, span))
    module.launch("scale_sums", grid=((n + 255) // 256, m), block=256, args=(sums, x_scale, weight_scale, y, n))
    return y
