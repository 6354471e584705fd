"""A block belongs to one expert and 64 columns and walks through all of that expert's rows with warp-matrix tiles."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#include <mma.h>
#define BM 128
#define BN 64
#define BK 32
#define LDX 40
#define LDW 72
#define LDO 68
extern "C" __global__ void __launch_bounds__(256) expert_strip(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight, const int* __restrict__ offsets, __nv_bfloat16* __restrict__ y, int n, int k) {
    __shared__ __align__(128) unsigned char raw[BM * LDO * 4];
    __nv_bfloat16* xs = (__nv_bfloat16*)raw;
    __nv_bfloat16* ws = xs + BM * LDX;
    float* out = (float*)raw;
    int group = blockIdx.y, n0 = blockIdx.x * BN;
    int start = group ? offsets[group - 1] : 0, end = offsets[group];
    const __nv_bfloat16* w = weight + (long long)group * k * n;
    int tid = threadIdx.x, warp = tid / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
    for (int m0 = start; m0 < end; m0 += BM) {
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc[2][2];
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) nvcuda::wmma::fill_fragment(acc[i][j], 0.0f);
        for (int k0 = 0; k0 < k; k0 += BK) {
            for (int e = tid; e < BM * BK / 8; e += 256) {
                int r = e / (BK / 8), q = e % (BK / 8) * 8;
                uint4 v = make_uint4(0, 0, 0, 0);
                if (m0 + r < end && k0 + q < k) v = *(const uint4*)(x + (long long)(m0 + r) * k + k0 + q);
                *(uint4*)(xs + r * LDX + q) = v;
            }
            {
                int r = tid / (BN / 8), q = tid % (BN / 8) * 8;
                uint4 v = make_uint4(0, 0, 0, 0);
                if (k0 + r < k && n0 + q < n) v = *(const uint4*)(w + (long long)(k0 + r) * n + n0 + q);
                *(uint4*)(ws + r * LDW + q) = v;
            }
            __syncthreads();
            for (int q = 0; q < BK; q += 16) {
                nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::row_major> a[2];
                nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::row_major> b[2];
                for (int i = 0; i < 2; ++i) {
                    nvcuda::wmma::load_matrix_sync(a[i], xs + (wm + 16 * i) * LDX + q, LDX);
                    nvcuda::wmma::load_matrix_sync(b[i], ws + q * LDW + wn + 16 * i, LDW);
                }
                for (int i = 0; i < 2; ++i)
                    for (int j = 0; j < 2; ++j) nvcuda::wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
            }
            __syncthreads();
        }
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                nvcuda::wmma::store_matrix_sync(out + (wm + 16 * i) * LDO + wn + 16 * j, acc[i][j], LDO, nvcuda::wmma::mem_row_major);
        __syncthreads();
        for (int e = tid; e < BM * BN; e += 256) {
            int row = m0 + e / BN, col = n0 + e % BN;
            if (row < end && col < n) y[(long long)row * n + col] = __float2bfloat16(out[e / BN * LDO + e % BN]);
        }
        __syncthreads();
    }
}
""")


def run(x, weight, offsets):
    tokens, k = x.shape
    groups, _, n = weight.shape
    y = torch.empty((tokens, n), device=x.device, dtype=torch.bfloat16)
    module.launch("expert_strip", grid=((n + 63) // 64, groups), block=256, args=(x, weight, offsets, y, n, k))
    return y
