"""Warp-level matrices from global memory: one pass for each row's maximum and sum, a second that only accumulates."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
#define KEYS 64
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> Left;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> Key;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> Value;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Sum;
template <int D>
__device__ __forceinline__ void score(const Left* query, const __nv_bfloat16* keys, float* tile) {
    #pragma unroll
    for (int n = 0; n < KEYS / 16; ++n) {
        Sum s;
        wmma::fill_fragment(s, 0.0f);
        #pragma unroll
        for (int i = 0; i < D / 16; ++i) {
            Key b;
            wmma::load_matrix_sync(b, keys + n * 16 * D + i * 16, D);
            wmma::mma_sync(s, query[i], b, s);
        }
        wmma::store_matrix_sync(tile + n * 16, s, KEYS + 8, wmma::mem_row_major);
    }
    __syncwarp();
}
template <int D>
__device__ __forceinline__ void attend(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* o, float scale, int length, float* tile, __nv_bfloat16* chances) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long head = (long long)blockIdx.y * length * D;
    int first = blockIdx.x * 64 + warp * 16;
    tile += warp * 16 * (KEYS + 8);
    chances += warp * 16 * (KEYS + 16);
    Left query[D / 16];
    #pragma unroll
    for (int i = 0; i < D / 16; ++i) wmma::load_matrix_sync(query[i], q + head + (long long)first * D + i * 16, D);
    // Two lanes share a row: each looks at every other column.
    int row = lane / 2, side = lane % 2;
    float top = -1.0e30f, sum = 0.0f;
    for (int t = 0; t < length; t += KEYS) {
        score<D>(query, k + head + (long long)t * D, tile);
        float larger = top;
        for (int c = side; c < KEYS; c += 2) larger = fmaxf(larger, tile[row * (KEYS + 8) + c] * scale);
        sum *= exp2f(top - larger);
        for (int c = side; c < KEYS; c += 2) sum += exp2f(tile[row * (KEYS + 8) + c] * scale - larger);
        top = larger;
        __syncwarp();
    }
    float other = __shfl_xor_sync(0xffffffffu, top, 1), best = fmaxf(top, other);
    sum *= exp2f(top - best);
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    float inverse = 1.0f / sum;
    Sum acc[D / 16];
    #pragma unroll
    for (int i = 0; i < D / 16; ++i) wmma::fill_fragment(acc[i], 0.0f);
    for (int t = 0; t < length; t += KEYS) {
        score<D>(query, k + head + (long long)t * D, tile);
        for (int c = side; c < KEYS; c += 2)
            chances[row * (KEYS + 16) + c] = __float2bfloat16(exp2f(tile[row * (KEYS + 8) + c] * scale - best) * inverse);
        __syncwarp();
        #pragma unroll
        for (int n = 0; n < KEYS / 16; ++n) {
            Left p;
            wmma::load_matrix_sync(p, chances + n * 16, KEYS + 16);
            #pragma unroll
            for (int i = 0; i < D / 16; ++i) {
                Value b;
                wmma::load_matrix_sync(b, v + head + (long long)(t + n * 16) * D + i * 16, D);
                wmma::mma_sync(acc[i], p, b, acc[i]);
            }
        }
        __syncwarp();
    }
    #pragma unroll
    for (int i = 0; i < D / 16; ++i) {
        wmma::store_matrix_sync(tile, acc[i], KEYS + 8, wmma::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32)
            o[head + (long long)(first + e / 16) * D + i * 16 + e % 16] = __float2bfloat16(tile[e / 16 * (KEYS + 8) + e % 16]);
        __syncwarp();
    }
}
extern "C" __global__ void __launch_bounds__(128) attend_64(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ o, float scale, int length) {
    __shared__ __align__(128) float tile[64 * (KEYS + 8)];
    __shared__ __align__(128) __nv_bfloat16 chances[64 * (KEYS + 16)];
    attend<64>(q, k, v, o, scale, length, tile, chances);
}
extern "C" __global__ void __launch_bounds__(128) attend_128(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ o, float scale, int length) {
    __shared__ __align__(128) float tile[64 * (KEYS + 8)];
    __shared__ __align__(128) __nv_bfloat16 chances[64 * (KEYS + 16)];
    attend<128>(q, k, v, o, scale, length, tile, chances);
}
""")


def run(q, k, v):
    b, h, length, d = q.shape
    assert d in (64, 128)
    assert length % 64 == 0
    o = torch.empty_like(q)
    args = (q, k, v, o, 1.4426950408889634 / math.sqrt(d), length)
    module.launch("attend_64" if d == 64 else "attend_128", grid=(length // 64, b * h), block=128, args=args)
    return o
