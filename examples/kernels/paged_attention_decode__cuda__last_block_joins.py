"""One launch: blocks take stretches of a sequence, and whichever finishes last joins them all."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define LOW -1.0e30f
#define SPAN 512
#define WARPS 8
// Heads are at most 128 wide: a lane holds four neighbouring channels.
extern "C" __global__ void __launch_bounds__(256) decode(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, const int* __restrict__ table, const int* __restrict__ lengths, float* part, float* tops, float* sums, int* done, __nv_bfloat16* __restrict__ o, float scale, int heads, int dim, int width, int page_size, int pieces) {
    __shared__ float score[SPAN];
    __shared__ float red[WARPS];
    __shared__ float s_acc[WARPS][128];
    __shared__ int last;
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    int head = blockIdx.x, piece = blockIdx.y, batch = blockIdx.z;
    int start = piece * SPAN, stop = min(lengths[batch], start + SPAN);
    const int* pages = table + batch * width;
    long long row = (long long)batch * heads + head;
    bool on = lane * 4 < dim;
    float query[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (on) {
        for (int i = 0; i < 4; ++i) query[i] = __bfloat162float(q[row * dim + lane * 4 + i]) * scale;
    }
    float top = LOW;
    for (int t = start + warp; t < stop; t += WARPS) {
        long long at = (((long long)pages[t / page_size] * page_size + t % page_size) * heads + head) * dim + lane * 4;
        uint2 r = on ? *(const uint2*)(k + at) : make_uint2(0, 0);
        float s = query[0] * __uint_as_float(r.x << 16) + query[1] * __uint_as_float(r.x & 0xffff0000u)
                + query[2] * __uint_as_float(r.y << 16) + query[3] * __uint_as_float(r.y & 0xffff0000u);
        for (int x = 16; x > 0; x /= 2) s += __shfl_xor_sync(0xffffffffu, s, x);
        if (lane == 0) score[t - start] = s;
        top = fmaxf(top, s);
    }
    if (lane == 0) red[warp] = top;
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, red[w]);
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f}, sum = 0.0f;
    for (int t = start + warp; t < stop; t += WARPS) {
        long long at = (((long long)pages[t / page_size] * page_size + t % page_size) * heads + head) * dim + lane * 4;
        uint2 r = on ? *(const uint2*)(v + at) : make_uint2(0, 0);
        float p = __expf(score[t - start] - top);
        sum += p;
        acc[0] += p * __uint_as_float(r.x << 16);
        acc[1] += p * __uint_as_float(r.x & 0xffff0000u);
        acc[2] += p * __uint_as_float(r.y << 16);
        acc[3] += p * __uint_as_float(r.y & 0xffff0000u);
    }
    for (int i = 0; i < 4; ++i) s_acc[warp][lane * 4 + i] = acc[i];
    __syncthreads();
    if (lane == 0) red[warp] = sum;
    __syncthreads();
    for (int d = tid; d < dim; d += 256) {
        float out = 0.0f;
        for (int w = 0; w < WARPS; ++w) out += s_acc[w][d];
        part[(row * pieces + piece) * dim + d] = out;
    }
    if (tid == 0) {
        float all = 0.0f;
        for (int w = 0; w < WARPS; ++w) all += red[w];
        tops[row * pieces + piece] = top;
        sums[row * pieces + piece] = all;
    }
    __threadfence();
    __syncthreads();
    if (tid == 0) last = atomicAdd(done + row, 1) == pieces - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    float best = LOW, all = 0.0f;
    for (int p = 0; p < pieces; ++p) best = fmaxf(best, __ldcg(tops + row * pieces + p));
    for (int p = 0; p < pieces; ++p) all += __ldcg(sums + row * pieces + p) * __expf(__ldcg(tops + row * pieces + p) - best);
    for (int d = tid; d < dim; d += 256) {
        float out = 0.0f;
        for (int p = 0; p < pieces; ++p) out += __ldcg(part + (row * pieces + p) * dim + d) * __expf(__ldcg(tops + row * pieces + p) - best);
        o[row * dim + d] = __float2bfloat16(out / all);
    }
}
""")


def run(q, k_pages, v_pages, page_table, context_lengths):
    b, h, d = q.shape
    width, page = page_table.shape[1], k_pages.shape[1]
    pieces = (width * page + 511) // 512
    part = torch.empty((b * h, pieces, d), device=q.device, dtype=torch.float32)
    tops = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    sums = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    done = torch.zeros((b * h,), device=q.device, dtype=torch.int32)
    o = torch.empty_like(q)
    args = (q, k_pages, v_pages, page_table, context_lengths, part, tops, sums, done, o)
    sizes = (1.0 / math.sqrt(d), h, d, width, page, pieces)
    module.launch("decode", grid=(h, pieces, b), block=256, args=(*args, *sizes))
    return o
