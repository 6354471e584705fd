"""A block unpacks 64 columns of one scale group to halves in shared memory and multiplies them on tensor cores."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_fp16.h>
#include <mma.h>
#define BN 64
#define BK 128
#define LD 136
extern "C" __global__ void dequant_mma(const __half* x, const unsigned char* packed, const __half* scale, __half* y, int m, int n, int k) {
    __shared__ __align__(32) __half xs[16 * LD];
    __shared__ __align__(32) __half ws[BN * LD];
    __shared__ __align__(32) float out[16 * BN];
    int tid = threadIdx.x, warp = tid / 32;
    int n0 = blockIdx.x * BN, m0 = blockIdx.y * 16;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
    nvcuda::wmma::fill_fragment(acc, 0.0f);
    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int e = tid; e < 16 * BK; e += 128) {
            int r = e / BK, q = e % BK;
            xs[r * LD + q] = m0 + r < m ? x[(long long)(m0 + r) * k + k0 + q] : __float2half(0.0f);
        }
        for (int e = tid; e < BN * BK / 2; e += 128) {
            int r = e / (BK / 2), q = e % (BK / 2);
            int byte = 0x88;
            float s = 0.0f;
            if (n0 + r < n) {
                byte = packed[(long long)(n0 + r) * (k / 2) + k0 / 2 + q];
                s = __half2float(scale[(n0 + r) * (k / BK) + k0 / BK]);
            }
            ws[r * LD + 2 * q] = __float2half(((byte & 15) - 8) * s);
            ws[r * LD + 2 * q + 1] = __float2half(((byte >> 4) - 8) * s);
        }
        __syncthreads();
        for (int q = 0; q < BK; q += 16) {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> fa;
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::col_major> fb;
            nvcuda::wmma::load_matrix_sync(fa, xs + q, LD);
            nvcuda::wmma::load_matrix_sync(fb, ws + warp * 16 * LD + q, LD);
            nvcuda::wmma::mma_sync(acc, fa, fb, acc);
        }
        __syncthreads();
    }
    nvcuda::wmma::store_matrix_sync(out + warp * 16, acc, BN, nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int e = tid; e < 16 * BN; e += 128) {
        int r = m0 + e / BN, q = n0 + e % BN;
        if (r < m && q < n) y[r * n + q] = __float2half(out[e]);
    }
}
""")


def run(x, packed, scale):
    m, k = x.shape
    n = packed.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.float16)
    module.launch("dequant_mma", grid=((n + 63) // 64, (m + 15) // 16), block=128, args=(x, packed, scale, y, m, n, k))
    return y
