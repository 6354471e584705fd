"""Patches become columns in shared memory, warp-level matrices multiply sixteen filters by 64 of them."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
#define DEEP 80
extern "C" __global__ void __launch_bounds__(128) columns(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w, const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ y, int c, int h, int wide, int o, int pixels) {
    __shared__ __align__(128) __nv_bfloat16 ws[64][DEEP + 8];
    __shared__ __align__(128) __nv_bfloat16 xs[DEEP][72];
    __shared__ __align__(128) float out[64][72];
    int warp = threadIdx.x / 32, p0 = blockIdx.x * 64, o0 = blockIdx.y * 64;
    int oh = h - 2, ow = wide - 2, plane = oh * ow, depth = c * 9;
    int mine = p0 + threadIdx.x % 64, rest = mine % plane;
    bool real = mine < pixels;
    const __nv_bfloat16* corner = x + (real ? (long long)(mine / plane) * c * h * wide + rest / ow * wide + rest % ow : 0);
    __nv_bfloat16 zero = __float2bfloat16(0.0f);
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
    for (int j = 0; j < 4; ++j) wmma::fill_fragment(acc[j], 0.0f);
    for (int k0 = 0; k0 < depth; k0 += DEEP) {
        for (int i = threadIdx.x; i < 64 * DEEP; i += 128) {
            int q = i / DEEP, k = i % DEEP;
            ws[q][k] = o0 + q < o && k0 + k < depth ? w[(o0 + q) * depth + k0 + k] : zero;
        }
        for (int k = threadIdx.x / 64; k < DEEP; k += 2) {
            int r = k0 + k;
            xs[k][threadIdx.x % 64] = real && r < depth ? corner[r / 9 * h * wide + r / 3 % 3 * wide + r % 3] : zero;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < DEEP; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
            wmma::load_matrix_sync(a, &ws[warp * 16][k], DEEP + 8);
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b;
                wmma::load_matrix_sync(b, &xs[k][j * 16], 72);
                wmma::mma_sync(acc[j], a, b, acc[j]);
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 4; ++j) wmma::store_matrix_sync(&out[warp * 16][j * 16], acc[j], 72, wmma::mem_row_major);
    __syncthreads();
    if (!real) return;
    __nv_bfloat16* to = y + (long long)(mine / plane) * o * plane + rest;
    for (int q = threadIdx.x / 64; q < 64 && o0 + q < o; q += 2) {
        float v = fmaxf(out[q][threadIdx.x % 64] + __bfloat162float(bias[o0 + q]), 0.0f);
        to[(long long)(o0 + q) * plane] = __float2bfloat16(v * fminf((v + 3.0f) * (1.0f / 6.0f), 1.0f));
    }
}
""")


def run(x, weight, conv_bias):
    n, c, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, h - 2, w - 2), device=x.device, dtype=x.dtype)
    pixels = n * (h - 2) * (w - 2)
    args = (x, weight, conv_bias, y, c, h, w, o, pixels)
    module.launch("columns", grid=((pixels + 63) // 64, (o + 63) // 64), block=128, args=args)
    return y
