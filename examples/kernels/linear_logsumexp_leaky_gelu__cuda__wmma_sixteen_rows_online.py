"""A block owns sixteen rows and all their columns: each of its sixteen warps keeps one row's running log-sum-exp."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_fp16.h>
#include <mma.h>
#define BN 256
#define BK 64
#define LD 72
__device__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); }
extern "C" __global__ void __launch_bounds__(512) rows_online(const __half* __restrict__ x, const __half* __restrict__ w, const __half* __restrict__ bias, __half* __restrict__ y, int m, int n, int k) {
    __shared__ __align__(32) __half ws[BN * LD];
    __shared__ __align__(32) __half xs[16 * LD];
    float* logits = (float*)ws;
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, m0 = blockIdx.x * 16;
    float top = -1e30f, mass = 0.0f;
    for (int n0 = 0; n0 < n; n0 += BN) {
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
        nvcuda::wmma::fill_fragment(acc, 0.0f);
        for (int k0 = 0; k0 < k; k0 += BK) {
            if (tid < 16 * BK / 8) {
                int r = tid / (BK / 8), q = tid % (BK / 8) * 8;
                uint4 v = make_uint4(0, 0, 0, 0);
                if (m0 + r < m && k0 + q < k) v = *(const uint4*)(x + (long long)(m0 + r) * k + k0 + q);
                *(uint4*)(xs + r * LD + q) = v;
            }
            #pragma unroll
            for (int e = tid; e < BN * BK / 8; e += 512) {
                int r = e / (BK / 8), q = e % (BK / 8) * 8;
                uint4 v = make_uint4(0, 0, 0, 0);
                if (n0 + r < n && k0 + q < k) v = __ldg((const uint4*)(w + (long long)(n0 + r) * k + k0 + q));
                *(uint4*)(ws + r * LD + q) = v;
            }
            __syncthreads();
            #pragma unroll
            for (int q = 0; q < BK; q += 16) {
                nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> a;
                nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::col_major> b;
                nvcuda::wmma::load_matrix_sync(a, xs + q, LD);
                nvcuda::wmma::load_matrix_sync(b, ws + warp * 16 * LD + q, LD);
                nvcuda::wmma::mma_sync(acc, a, b, acc);
            }
            __syncthreads();
        }
        nvcuda::wmma::store_matrix_sync(logits + warp * 16, acc, BN, nvcuda::wmma::mem_row_major);
        __syncthreads();
        float v[BN / 32], peak = top;
        for (int i = 0; i < BN / 32; ++i) {
            int col = n0 + lane + 32 * i;
            v[i] = col < n ? logits[warp * BN + lane + 32 * i] + __half2float(bias[col]) : -1e30f;
            peak = fmaxf(peak, v[i]);
        }
        for (int o = 16; o > 0; o >>= 1) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, o));
        mass *= expf(top - peak);
        for (int i = 0; i < BN / 32; ++i) mass += expf(v[i] - peak);
        top = peak;
        __syncthreads();
    }
    for (int o = 16; o > 0; o >>= 1) mass += __shfl_xor_sync(0xffffffffu, mass, o);
    if (lane == 0 && m0 + warp < m) {
        float v = top + logf(mass);
        v = fmaxf(v, 0.01f * v);
        v = fmaxf(v, 0.01f * v);
        y[m0 + warp] = __float2half(gelu(gelu(v)));
    }
}
""")


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, 1), device=x.device, dtype=torch.float16)
    module.launch("rows_online", grid=(m + 15) // 16, block=512, args=(x, weight, bias, y, m, n, k))
    return y
