"""No tensor cores: operands widen to float32 in shared memory; a thread holds small tiles of scores and outputs."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define ROWS 64
#define KEYS 32
template <int D>
__device__ __forceinline__ void attend(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* o, float scale, int length, float* shared) {
    float* qs = shared;                        // D by ROWS, padded
    float* ks = qs + D * (ROWS + 4);           // D by KEYS, padded
    float* vs = ks + D * (KEYS + 1);           // KEYS by D
    float* ps = vs + KEYS * D;                 // KEYS by ROWS, padded
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, first = blockIdx.x * ROWS;
    long long head = (long long)blockIdx.y * length * D;
    for (int i = threadIdx.x; i < ROWS * D; i += 256) {
        int r = i / D, d = i % D;
        qs[d * (ROWS + 4) + r] = first + r < length ? __bfloat162float(q[head + (long long)(first + r) * D + d]) * scale : 0.0f;
    }
    float acc[4][D / 16] = {}, top[4], sum[4];
    for (int i = 0; i < 4; ++i) { top[i] = -1.0e30f; sum[i] = 0.0f; }
    for (int t = 0; t < length; t += KEYS) {
        __syncthreads();
        for (int i = threadIdx.x; i < KEYS * D; i += 256) {
            int r = i / D, d = i % D;
            bool inside = t + r < length;
            long long at = head + (long long)(t + r) * D + d;
            ks[d * (KEYS + 1) + r] = inside ? __bfloat162float(k[at]) : 0.0f;
            vs[i] = inside ? __bfloat162float(v[at]) : 0.0f;
        }
        __syncthreads();
        float s[4][2] = {};
        #pragma unroll 8
        for (int d = 0; d < D; ++d) {
            float4 a = *(const float4*)(qs + d * (ROWS + 4) + ty * 4);
            float b0 = ks[d * (KEYS + 1) + tx], b1 = ks[d * (KEYS + 1) + tx + 16];
            s[0][0] += a.x * b0; s[0][1] += a.x * b1;
            s[1][0] += a.y * b0; s[1][1] += a.y * b1;
            s[2][0] += a.z * b0; s[2][1] += a.z * b1;
            s[3][0] += a.w * b0; s[3][1] += a.w * b1;
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (t + tx >= length) s[i][0] = -1.0e30f;
            if (t + tx + 16 >= length) s[i][1] = -1.0e30f;
            float larger = fmaxf(s[i][0], s[i][1]);
            for (int x = 8; x > 0; x /= 2) larger = fmaxf(larger, __shfl_xor_sync(0xffffffffu, larger, x));
            larger = fmaxf(larger, top[i]);
            float keep = exp2f(top[i] - larger), p0 = exp2f(s[i][0] - larger), p1 = exp2f(s[i][1] - larger);
            top[i] = larger;
            sum[i] = sum[i] * keep + p0 + p1;
            ps[tx * (ROWS + 4) + ty * 4 + i] = p0;
            ps[(tx + 16) * (ROWS + 4) + ty * 4 + i] = p1;
            #pragma unroll
            for (int j = 0; j < D / 16; ++j) acc[i][j] *= keep;
        }
        __syncthreads();
        #pragma unroll 4
        for (int r = 0; r < KEYS; ++r) {
            float4 p = *(const float4*)(ps + r * (ROWS + 4) + ty * 4);
            #pragma unroll
            for (int j = 0; j < D / 16; ++j) {
                float b = vs[r * D + tx + 16 * j];
                acc[0][j] += p.x * b;
                acc[1][j] += p.y * b;
                acc[2][j] += p.z * b;
                acc[3][j] += p.w * b;
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        float all = sum[i];
        for (int x = 8; x > 0; x /= 2) all += __shfl_xor_sync(0xffffffffu, all, x);
        int row = first + ty * 4 + i;
        if (row >= length) continue;
        #pragma unroll
        for (int j = 0; j < D / 16; ++j) o[head + (long long)row * D + tx + 16 * j] = __float2bfloat16(acc[i][j] / all);
    }
}
extern "C" __global__ void __launch_bounds__(256) attend_64(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ o, float scale, int length) {
    extern __shared__ __align__(16) float tiles[];
    attend<64>(q, k, v, o, scale, length, tiles);
}
extern "C" __global__ void __launch_bounds__(256) attend_128(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ o, float scale, int length) {
    extern __shared__ __align__(16) float tiles[];
    attend<128>(q, k, v, o, scale, length, tiles);
}
""")


def run(q, k, v):
    b, h, length, d = q.shape
    assert d in (64, 128)
    o = torch.empty_like(q)
    args = (q, k, v, o, 1.4426950408889634 / math.sqrt(d), length)
    shared = 4 * (d * 68 + d * 33 + 32 * d + 32 * 68)
    name = "attend_64" if d == 64 else "attend_128"
    module.launch(name, grid=((length + 63) // 64, b * h), block=256, args=args, shared_bytes=shared)
    return o
