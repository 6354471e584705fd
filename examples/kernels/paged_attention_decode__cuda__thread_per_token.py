"""A block a head: each thread scores whole tokens alone, then each thread gathers one channel of the values."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
extern "C" __global__ void decode(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, const int* __restrict__ table, const int* __restrict__ lengths, __nv_bfloat16* __restrict__ o, float scale, int heads, int dim, int width, int page_size) {
    extern __shared__ float score[];
    float* query = score + width * page_size;
    __shared__ float red[32];
    int tid = threadIdx.x, head = blockIdx.x, batch = blockIdx.y, length = lengths[batch];
    const int* pages = table + batch * width;
    long long row = (long long)batch * heads + head;
    for (int d = tid; d < dim; d += blockDim.x) query[d] = __bfloat162float(q[row * dim + d]) * scale;
    __syncthreads();
    float top = -1.0e30f;
    for (int t = tid; t < length; t += blockDim.x) {
        const __nv_bfloat16* key = k + (((long long)pages[t / page_size] * page_size + t % page_size) * heads + head) * dim;
        float s = 0.0f;
        for (int d = 0; d < dim; ++d) s += query[d] * __bfloat162float(key[d]);
        score[t] = s;
        top = fmaxf(top, s);
    }
    for (int x = 16; x > 0; x /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, x));
    if (tid % 32 == 0) red[tid / 32] = top;
    __syncthreads();
    for (int i = 0; i < blockDim.x / 32; ++i) top = fmaxf(top, red[i]);
    __syncthreads();
    float sum = 0.0f;
    for (int t = tid; t < length; t += blockDim.x) { float p = __expf(score[t] - top); score[t] = p; sum += p; }
    for (int x = 16; x > 0; x /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, x);
    if (tid % 32 == 0) red[tid / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < blockDim.x / 32; ++i) sum += red[i];
    for (int d = tid; d < dim; d += blockDim.x) {
        float acc = 0.0f;
        for (int t = 0; t < length; ++t)
            acc += score[t] * __bfloat162float(v[(((long long)pages[t / page_size] * page_size + t % page_size) * heads + head) * dim + d]);
        o[row * dim + d] = __float2bfloat16(acc / sum);
    }
}
""")


def run(q, k_pages, v_pages, page_table, context_lengths):
    b, h, d = q.shape
    width, page = page_table.shape[1], k_pages.shape[1]
    o = torch.empty_like(q)
    args = (q, k_pages, v_pages, page_table, context_lengths, o, 1.0 / math.sqrt(d), h, d, width, page)
    module.launch("decode", grid=(h, b), block=256, args=args, shared_bytes=4 * (width * page + d))
    return o
