"""Warps take pages in turn, half a warp a token with 16-byte reads; pieces of a sequence meet in a second kernel."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define LOW -1.0e30f
#define WARPS 4
#define PAGES 16
__device__ __forceinline__ void widen(uint4 r, float* f) {
    f[0] = __uint_as_float(r.x << 16); f[1] = __uint_as_float(r.x & 0xffff0000u);
    f[2] = __uint_as_float(r.y << 16); f[3] = __uint_as_float(r.y & 0xffff0000u);
    f[4] = __uint_as_float(r.z << 16); f[5] = __uint_as_float(r.z & 0xffff0000u);
    f[6] = __uint_as_float(r.w << 16); f[7] = __uint_as_float(r.w & 0xffff0000u);
}
// Heads are at most 128 wide.
extern "C" __global__ void __launch_bounds__(128) stretch(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, const int* __restrict__ table, const int* __restrict__ lengths, float* __restrict__ part, float* __restrict__ tops, float* __restrict__ sums, float scale, int heads, int dim, int width, int page_size, int pieces) {
    __shared__ float s_top[2 * WARPS];
    __shared__ float s_sum[2 * WARPS];
    __shared__ float s_acc[2 * WARPS][128];
    int lane = threadIdx.x % 16, half = threadIdx.x / 16 % 2, warp = threadIdx.x / 32;
    int head = blockIdx.x, piece = blockIdx.y, batch = blockIdx.z, length = lengths[batch];
    long long row = (long long)batch * heads + head, slot = row * pieces + piece;
    bool on = lane * 8 < dim;
    float query[8], acc[8], top = LOW, sum = 0.0f;
    widen(on ? *(const uint4*)(q + row * dim + lane * 8) : make_uint4(0, 0, 0, 0), query);
    #pragma unroll
    for (int i = 0; i < 8; ++i) { query[i] *= scale; acc[i] = 0.0f; }
    for (int number = piece * PAGES + warp; number < (piece + 1) * PAGES && number * page_size < length; number += WARPS) {
        long long page = table[batch * width + number];
        // Eight tokens a turn: four to each half-warp, all loads before the arithmetic.
        for (int place = 0; place < page_size; place += 8) {
            uint4 kr[4], vr[4];
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                int spot = place + 2 * j + half;
                bool ok = on && spot < page_size && number * page_size + spot < length;
                long long at = ((page * page_size + spot) * heads + head) * dim + lane * 8;
                kr[j] = ok ? *(const uint4*)(k + at) : make_uint4(0, 0, 0, 0);
                vr[j] = ok ? *(const uint4*)(v + at) : make_uint4(0, 0, 0, 0);
            }
            float s[4], larger = top;
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                float f[8];
                widen(kr[j], f);
                s[j] = 0.0f;
                #pragma unroll
                for (int i = 0; i < 8; ++i) s[j] += query[i] * f[i];
                #pragma unroll
                for (int x = 8; x > 0; x /= 2) s[j] += __shfl_xor_sync(0xffffffffu, s[j], x);
                int spot = place + 2 * j + half;
                if (spot >= page_size || number * page_size + spot >= length) s[j] = 2.0f * LOW;
                larger = fmaxf(larger, s[j]);
            }
            float keep = __expf(top - larger);
            top = larger;
            sum *= keep;
            #pragma unroll
            for (int i = 0; i < 8; ++i) acc[i] *= keep;
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                float f[8], p = __expf(s[j] - top);
                widen(vr[j], f);
                sum += p;
                #pragma unroll
                for (int i = 0; i < 8; ++i) acc[i] += p * f[i];
            }
        }
    }
    int worker = warp * 2 + half;
    if (lane == 0) { s_top[worker] = top; s_sum[worker] = sum; }
    #pragma unroll
    for (int i = 0; i < 8; ++i) s_acc[worker][lane * 8 + i] = acc[i];
    __syncthreads();
    float best = LOW, all = 0.0f;
    for (int w = 0; w < 2 * WARPS; ++w) best = fmaxf(best, s_top[w]);
    for (int w = 0; w < 2 * WARPS; ++w) all += s_sum[w] * __expf(s_top[w] - best);
    for (int d = threadIdx.x; d < dim; d += 128) {
        float out = 0.0f;
        for (int w = 0; w < 2 * WARPS; ++w) out += s_acc[w][d] * __expf(s_top[w] - best);
        part[slot * dim + d] = out;
    }
    if (threadIdx.x == 0) { tops[slot] = best; sums[slot] = all; }
}
extern "C" __global__ void join(const float* __restrict__ part, const float* __restrict__ tops, const float* __restrict__ sums, __nv_bfloat16* __restrict__ o, int dim, int pieces) {
    long long row = blockIdx.x;
    float best = LOW, all = 0.0f, out = 0.0f;
    for (int p = 0; p < pieces; ++p) best = fmaxf(best, tops[row * pieces + p]);
    for (int p = 0; p < pieces; ++p) {
        float share = __expf(tops[row * pieces + p] - best);
        all += share * sums[row * pieces + p];
        out += share * part[(row * pieces + p) * dim + threadIdx.x];
    }
    o[row * dim + threadIdx.x] = __float2bfloat16(out / all);
}
""")


def run(q, k_pages, v_pages, page_table, context_lengths):
    b, h, d = q.shape
    width, page = page_table.shape[1], k_pages.shape[1]
    pieces = (width + 15) // 16
    part = torch.empty((b * h, pieces, d), device=q.device, dtype=torch.float32)
    tops = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    sums = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    o = torch.empty_like(q)
    args = (q, k_pages, v_pages, page_table, context_lengths, part, tops, sums)
    sizes = (1.0 / math.sqrt(d), h, d, width, page, pieces)
    module.launch("stretch", grid=(h, pieces, b), block=128, args=(*args, *sizes))
    module.launch("join", grid=b * h, block=d, args=(part, tops, sums, o, d, pieces))
    return o
