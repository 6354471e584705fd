"""Stretches of tokens to blocks; sixteen lanes read a token in 16-byte pieces for four query heads at once."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define LOW -1.0e30f
#define SPAN 256
#define G 4
__device__ __forceinline__ void widen(uint4 r, float* f) {
    f[0] = __uint_as_float(r.x << 16); f[1] = __uint_as_float(r.x & 0xffff0000u);
    f[2] = __uint_as_float(r.y << 16); f[3] = __uint_as_float(r.y & 0xffff0000u);
    f[4] = __uint_as_float(r.z << 16); f[5] = __uint_as_float(r.z & 0xffff0000u);
    f[6] = __uint_as_float(r.w << 16); f[7] = __uint_as_float(r.w & 0xffff0000u);
}
// Heads are at most 128 wide: 16 lanes of 8 numbers.
extern "C" __global__ void __launch_bounds__(256) stretch(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, float* __restrict__ part, float* __restrict__ tops, float* __restrict__ sums, float scale, int length, int kv, int dim, int group, int pieces) {
    __shared__ float s_top[16][G];
    __shared__ float s_sum[16][G];
    __shared__ float s_acc[16][128];
    int lane = threadIdx.x % 16, worker = threadIdx.x / 16;
    int piece = blockIdx.x, row = blockIdx.y, first = blockIdx.z * G;
    long long batch = row / kv, head = row % kv;
    bool on = lane * 8 < dim;
    float query[G][8], acc[G][8], top[G], sum[G];
    #pragma unroll
    for (int g = 0; g < G; ++g) {
        uint4 r = make_uint4(0, 0, 0, 0);
        if (on && first + g < group) r = *(const uint4*)(q + ((long long)row * group + first + g) * dim + lane * 8);
        widen(r, query[g]);
        top[g] = LOW; sum[g] = 0.0f;
        #pragma unroll
        for (int i = 0; i < 8; ++i) { query[g][i] *= scale; acc[g][i] = 0.0f; }
    }
    int stop = min(length, (piece + 1) * SPAN);
    for (int base = piece * SPAN; base < stop; base += 32) {
        uint4 kr[2], vr[2];
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            int t = base + j * 16 + worker;
            long long at = ((batch * length + t) * kv + head) * dim + lane * 8;
            bool ok = on && t < stop;
            kr[j] = ok ? *(const uint4*)(k + at) : make_uint4(0, 0, 0, 0);
            vr[j] = ok ? *(const uint4*)(v + at) : make_uint4(0, 0, 0, 0);
        }
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            bool live = base + j * 16 + worker < stop;
            float kf[8], vf[8];
            widen(kr[j], kf); widen(vr[j], vf);
            #pragma unroll
            for (int g = 0; g < G; ++g) {
                float s = 0.0f;
                #pragma unroll
                for (int i = 0; i < 8; ++i) s += query[g][i] * kf[i];
                #pragma unroll
                for (int x = 8; x > 0; x /= 2) s += __shfl_xor_sync(0xffffffffu, s, x);
                s = live ? s : LOW;
                float larger = fmaxf(top[g], s);
                float keep = __expf(top[g] - larger), p = live ? __expf(s - larger) : 0.0f;
                top[g] = larger;
                sum[g] = sum[g] * keep + p;
                #pragma unroll
                for (int i = 0; i < 8; ++i) acc[g][i] = acc[g][i] * keep + p * vf[i];
            }
        }
    }
    if (lane == 0) {
        #pragma unroll
        for (int g = 0; g < G; ++g) { s_top[worker][g] = top[g]; s_sum[worker][g] = sum[g]; }
    }
    #pragma unroll
    for (int g = 0; g < G; ++g) {
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 8; ++i) s_acc[worker][lane * 8 + i] = acc[g][i];
        __syncthreads();
        float best = LOW, all = 0.0f;
        for (int w = 0; w < 16; ++w) best = fmaxf(best, s_top[w][g]);
        for (int w = 0; w < 16; ++w) all += s_sum[w][g] * __expf(s_top[w][g] - best);
        if (first + g < group) {
            long long slot = ((long long)row * group + first + g) * pieces + piece;
            for (int d = threadIdx.x; d < dim; d += 256) {
                float out = 0.0f;
                for (int w = 0; w < 16; ++w) out += s_acc[w][d] * __expf(s_top[w][g] - best);
                part[slot * dim + d] = out;
            }
            if (threadIdx.x == 0) { tops[slot] = best; sums[slot] = all; }
        }
    }
}
extern "C" __global__ void join(const float* __restrict__ part, const float* __restrict__ tops, const float* __restrict__ sums, __nv_bfloat16* __restrict__ o, int dim, int pieces) {
    long long head = blockIdx.x;
    float best = LOW, all = 0.0f, out = 0.0f;
    for (int p = 0; p < pieces; ++p) best = fmaxf(best, tops[head * pieces + p]);
    for (int p = 0; p < pieces; ++p) {
        float share = __expf(tops[head * pieces + p] - best);
        all += share * sums[head * pieces + p];
        out += share * part[(head * pieces + p) * dim + threadIdx.x];
    }
    o[head * dim + threadIdx.x] = __float2bfloat16(out / all);
}
""")


def run(q, k, v):
    b, h, d = q.shape
    length, kv = k.shape[1], k.shape[2]
    group = h // kv
    pieces = (length + 255) // 256
    part = torch.empty((b * h, pieces, d), device=q.device, dtype=torch.float32)
    tops = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    sums = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    o = torch.empty_like(q)
    args = (q, k, v, part, tops, sums, 1.0 / math.sqrt(d), length, kv, d, group, pieces)
    module.launch("stretch", grid=(pieces, b * kv, (group + 3) // 4), block=256, args=args)
    module.launch("join", grid=b * h, block=d, args=(part, tops, sums, o, d, pieces))
    return o
