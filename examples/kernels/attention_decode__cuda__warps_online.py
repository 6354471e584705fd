"""Every warp runs its own online softmax over its tokens, with its slice of the output in registers; warps meet at the end."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define LOWEST __int_as_float(0xff800000)
#include <cuda_bf16.h>
#define WARPS 16
#define PER 8
extern "C" __global__ void decode_online(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ o, float scale, int length, int dim) {
    __shared__ float tops[WARPS];
    __shared__ float sums[WARPS];
    __shared__ float parts[WARPS][32 * PER];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long base = (long long)blockIdx.x * length * dim;
    float query[PER], acc[PER];
    // Lane l owns channels l, l + 32, ...; the widest head is 32 * PER.
    #pragma unroll
    for (int i = 0; i < PER; ++i) {
        int d = lane + 32 * i;
        query[i] = d < dim ? __bfloat162float(q[(long long)blockIdx.x * dim + d]) * scale : 0.0f;
        acc[i] = 0.0f;
    }
    float top = LOWEST, sum = 0.0f;
    for (int t = warp; t < length; t += WARPS) {
        const __nv_bfloat16* kt = k + base + (long long)t * dim;
        const __nv_bfloat16* vt = v + base + (long long)t * dim;
        float s = 0.0f, value[PER];
        #pragma unroll
        for (int i = 0; i < PER; ++i) {
            int d = lane + 32 * i;
            value[i] = 0.0f;
            if (d < dim) {
                s += query[i] * __bfloat162float(kt[d]);
                value[i] = __bfloat162float(vt[d]);
            }
        }
        for (int x = 16; x > 0; x /= 2) s += __shfl_xor_sync(0xffffffffu, s, x);
        float larger = fmaxf(top, s);
        float keep = __expf(top - larger), p = __expf(s - larger);
        #pragma unroll
        for (int i = 0; i < PER; ++i) acc[i] = acc[i] * keep + p * value[i];
        sum = sum * keep + p;
        top = larger;
    }
    if (lane == 0) { tops[warp] = top; sums[warp] = sum; }
    #pragma unroll
    for (int i = 0; i < PER; ++i) parts[warp][lane + 32 * i] = acc[i];
    __syncthreads();
    float best = LOWEST;
    for (int i = 0; i < WARPS; ++i) best = fmaxf(best, tops[i]);
    float total = 0.0f;
    for (int i = 0; i < WARPS; ++i) total += sums[i] * __expf(tops[i] - best);
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        float out = 0.0f;
        for (int i = 0; i < WARPS; ++i) out += parts[i][d] * __expf(tops[i] - best);
        o[(long long)blockIdx.x * dim + d] = __float2bfloat16(out / total);
    }
}
""")


def run(q, k, v):
    b, h, d = q.shape
    o = torch.empty_like(q)
    module.launch("decode_online", grid=b * h, block=512, args=(q, k, v, o, 1.0 / math.sqrt(d), k.shape[2], d))
    return o
