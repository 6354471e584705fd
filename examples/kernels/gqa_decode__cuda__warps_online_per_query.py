"""Every query head on its own: a block's warps run separate online softmaxes, leaving key reuse to the cache."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define LOW __int_as_float(0xff800000)
#define WARPS 16
#define PER 4
extern "C" __global__ void decode(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ o, float scale, int length, int heads, int kv, int dim) {
    __shared__ float tops[WARPS];
    __shared__ float sums[WARPS];
    __shared__ float parts[WARPS][32 * PER];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long batch = blockIdx.y, head = blockIdx.x, mine = head / (heads / kv);
    float query[PER], acc[PER];
    #pragma unroll
    for (int i = 0; i < PER; ++i) {
        int d = lane + 32 * i;
        query[i] = d < dim ? __bfloat162float(q[(batch * heads + head) * dim + d]) * scale : 0.0f;
        acc[i] = 0.0f;
    }
    float top = LOW, sum = 0.0f;
    for (int t = warp; t < length; t += WARPS) {
        long long at = ((batch * length + t) * kv + mine) * dim;
        float s = 0.0f, value[PER];
        #pragma unroll
        for (int i = 0; i < PER; ++i) {
            int d = lane + 32 * i;
            s += d < dim ? query[i] * __bfloat162float(k[at + d]) : 0.0f;
            value[i] = d < dim ? __bfloat162float(v[at + d]) : 0.0f;
        }
        for (int x = 16; x > 0; x /= 2) s += __shfl_xor_sync(0xffffffffu, s, x);
        if (s > top) {
            float keep = __expf(top - s);
            #pragma unroll
            for (int i = 0; i < PER; ++i) acc[i] *= keep;
            sum *= keep;
            top = s;
        }
        float p = __expf(s - top);
        sum += p;
        #pragma unroll
        for (int i = 0; i < PER; ++i) acc[i] += p * value[i];
    }
    if (lane == 0) { tops[warp] = top; sums[warp] = sum; }
    #pragma unroll
    for (int i = 0; i < PER; ++i) parts[warp][lane + 32 * i] = acc[i];
    __syncthreads();
    float best = LOW, total = 0.0f;
    for (int i = 0; i < WARPS; ++i) best = fmaxf(best, tops[i]);
    for (int i = 0; i < WARPS; ++i) total += sums[i] * __expf(tops[i] - best);
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        float out = 0.0f;
        for (int i = 0; i < WARPS; ++i) out += parts[i][d] * __expf(tops[i] - best);
        o[(batch * heads + head) * dim + d] = __float2bfloat16(out / total);
    }
}
""")


def run(q, k, v):
    b, h, d = q.shape
    o = torch.empty_like(q)
    args = (q, k, v, o, 1.0 / math.sqrt(d), k.shape[1], h, k.shape[2], d)
    module.launch("decode", grid=(h, b), block=512, args=args)
    return o
