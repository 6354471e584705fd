"""A block owns a key-value head: every score of its query group stays in shared memory between the two passes."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define THREADS 1024
extern "C" __global__ void __launch_bounds__(THREADS) decode(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ o, float scale, int length, int kv, int dim, int group) {
    extern __shared__ float room[];
    float* score = room;
    float* query = score + group * length;
    float* part = query + group * dim;
    float* total = part + THREADS;
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    long long row = blockIdx.x, batch = row / kv, head = row % kv;
    for (int i = tid; i < group * dim; i += THREADS) query[i] = __bfloat162float(q[row * group * dim + i]) * scale;
    __syncthreads();
    for (int t = warp; t < length; t += THREADS / 32) {
        const __nv_bfloat16* key = k + ((batch * length + t) * kv + head) * dim;
        for (int g = 0; g < group; ++g) {
            float s = 0.0f;
            for (int d = lane; d < dim; d += 32) s += query[g * dim + d] * __bfloat162float(key[d]);
            for (int x = 16; x > 0; x /= 2) s += __shfl_xor_sync(0xffffffffu, s, x);
            if (lane == 0) score[g * length + t] = s;
        }
    }
    __syncthreads();
    // One warp normalises each query head.
    for (int g = warp; g < group; g += THREADS / 32) {
        float top = -1.0e30f, sum = 0.0f;
        for (int t = lane; t < length; t += 32) top = fmaxf(top, score[g * length + t]);
        for (int x = 16; x > 0; x /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, x));
        for (int t = lane; t < length; t += 32) {
            float p = __expf(score[g * length + t] - top);
            score[g * length + t] = p;
            sum += p;
        }
        for (int x = 16; x > 0; x /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, x);
        if (lane == 0) total[g] = sum;
    }
    __syncthreads();
    // Threads stand in teams of `dim`; team i takes tokens i, i + teams, ...
    int teams = THREADS / dim, team = tid / dim, d = tid % dim;
    for (int g = 0; g < group; ++g) {
        float acc = 0.0f;
        if (team < teams) {
            #pragma unroll 4
            for (int t = team; t < length; t += teams) acc += score[g * length + t] * __bfloat162float(v[((batch * length + t) * kv + head) * dim + d]);
        }
        part[tid] = acc;
        __syncthreads();
        if (tid < dim) {
            float out = 0.0f;
            for (int i = 0; i < teams; ++i) out += part[i * dim + tid];
            o[(row * group + g) * dim + tid] = __float2bfloat16(out / total[g]);
        }
        __syncthreads();
    }
}
""")


def run(q, k, v):
    b, h, d = q.shape
    length, kv = k.shape[1], k.shape[2]
    group = h // kv
    o = torch.empty_like(q)
    shared = 4 * (group * length + group * d + 1024 + group)
    args = (q, k, v, o, 1.0 / math.sqrt(d), length, kv, d, group)
    module.launch("decode", grid=b * kv, block=1024, args=args, shared_bytes=shared)
    return o
