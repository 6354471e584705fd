"""Plain warp-matrix tiles of 64 by 128 write float32 logits; a block per row keeps its GELU values in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#include <mma.h>
#define BM 64
#define BN 128
#define BK 32
#define LD 40
extern "C" __global__ void __launch_bounds__(256) logits_wmma(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w, float* __restrict__ logits, int m, int n, int k, int pitch) {
    __shared__ __align__(128) __nv_bfloat16 xs[BM * LD];
    __shared__ __align__(128) __nv_bfloat16 ws[BN * LD];
    int tid = threadIdx.x, warp = tid / 32, wm = warp / 4 * 32, wn = warp % 4 * 32;
    int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) nvcuda::wmma::fill_fragment(acc[i][j], 0.0f);
    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int e = tid; e < (BM + BN) * (BK / 8); e += 256) {
            int r = e / (BK / 8), q = e % (BK / 8) * 8;
            uint4 v = make_uint4(0, 0, 0, 0);
            if (r < BM) {
                if (m0 + r < m && k0 + q < k) v = *(const uint4*)(x + (long long)(m0 + r) * k + k0 + q);
                *(uint4*)(xs + r * LD + q) = v;
            } else {
                r -= BM;
                if (n0 + r < n && k0 + q < k) v = *(const uint4*)(w + (long long)(n0 + r) * k + k0 + q);
                *(uint4*)(ws + r * LD + q) = v;
            }
        }
        __syncthreads();
        for (int q = 0; q < BK; q += 16) {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::row_major> a[2];
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::col_major> b[2];
            for (int i = 0; i < 2; ++i) {
                nvcuda::wmma::load_matrix_sync(a[i], xs + (wm + 16 * i) * LD + q, LD);
                nvcuda::wmma::load_matrix_sync(b[i], ws + (wn + 16 * i) * LD + q, LD);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) nvcuda::wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }
    // The buffer is padded to whole tiles, so fragments go out unmasked.
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            nvcuda::wmma::store_matrix_sync(logits + (long long)(m0 + wm + 16 * i) * pitch + n0 + wn + 16 * j, acc[i][j], pitch, nvcuda::wmma::mem_row_major);
}
__device__ float across_block(float v, bool largest, float* scratch) {
    for (int o = 16; o > 0; o >>= 1) {
        float other = __shfl_xor_sync(0xffffffffu, v, o);
        v = largest ? fmaxf(v, other) : v + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    v = scratch[0];
    for (int i = 1; i < 8; ++i) v = largest ? fmaxf(v, scratch[i]) : v + scratch[i];
    return v;
}
extern "C" __global__ void row_softmax(const float* __restrict__ logits, const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ y, int n, int pitch) {
    extern __shared__ float row[];
    __shared__ float scratch[8];
    float top = -1e30f, s = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) {
        float v = logits[(long long)blockIdx.x * pitch + i] + __bfloat162float(bias[i]);
        v = 0.5f * v * (1.0f + erff(v * 0.70710678f));
        row[i] = v;
        top = fmaxf(top, v);
    }
    top = across_block(top, true, scratch);
    for (int i = threadIdx.x; i < n; i += 256) { row[i] = expf(row[i] - top); s += row[i]; }
    s = across_block(s, false, scratch);
    for (int i = threadIdx.x; i < n; i += 256) y[(long long)blockIdx.x * n + i] = __float2bfloat16(row[i] / s);
}
""")


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    down, across = (m + 63) // 64, (n + 127) // 128
    pitch = across * 128
    logits = torch.empty((down * 64, pitch), device=x.device, dtype=torch.float32)
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    module.launch("logits_wmma", grid=(across, down), block=256, args=(x, weight, logits, m, n, k, pitch))
    module.launch("row_softmax", grid=m, block=256, args=(logits, bias, y, n, pitch), shared_bytes=4 * n)
    return y
