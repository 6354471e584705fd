"""Blocks share a row through atomics: the maximum first, then the sum and a packed score-and-place key."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define SPAN 4096
__device__ __forceinline__ unsigned rising(float v) {
    unsigned bits = __float_as_uint(v);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float falling(unsigned bits) {
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}
extern "C" __global__ void highest(const float* __restrict__ logits, unsigned* __restrict__ tops, int vocab) {
    long long row = blockIdx.y;
    int stop = min(vocab, (int)(blockIdx.x + 1) * SPAN);
    unsigned top = 0;
    for (int i = blockIdx.x * SPAN + threadIdx.x; i < stop; i += blockDim.x) top = max(top, rising(logits[row * vocab + i]));
    for (int m = 16; m > 0; m /= 2) top = max(top, __shfl_xor_sync(0xffffffffu, top, m));
    if (threadIdx.x % 32 == 0) atomicMax(tops + row, top);
}
extern "C" __global__ void weigh(const float* __restrict__ logits, const float* __restrict__ noise, const unsigned* __restrict__ tops, float* __restrict__ sums, unsigned long long* __restrict__ keys, float inverse, int vocab) {
    long long row = blockIdx.y;
    int stop = min(vocab, (int)(blockIdx.x + 1) * SPAN);
    float top = falling(tops[row]) * inverse, sum = 0.0f;
    unsigned long long key = 0;
    for (int i = blockIdx.x * SPAN + threadIdx.x; i < stop; i += blockDim.x) {
        float p = expf(logits[row * vocab + i] * inverse - top);
        sum += p;
        unsigned long long mine = (unsigned long long)rising(p / noise[row * vocab + i]) << 32 | (0xffffffffu - (unsigned)i);
        key = mine > key ? mine : key;
    }
    for (int m = 16; m > 0; m /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, m);
        unsigned long long other = __shfl_xor_sync(0xffffffffu, key, m);
        key = other > key ? other : key;
    }
    if (threadIdx.x % 32 == 0) { atomicAdd(sums + row, sum); atomicMax(keys + row, key); }
}
extern "C" __global__ void settle(const float* __restrict__ logits, const unsigned* __restrict__ tops, const float* __restrict__ sums, const unsigned long long* __restrict__ keys, int* __restrict__ tokens, float* __restrict__ probs, float inverse, int vocab, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int place = (int)(0xffffffffu - (unsigned)keys[row]);
    tokens[row] = place;
    probs[row] = (logits[(long long)row * vocab + place] - falling(tops[row])) * inverse - logf(sums[row]);
}
""")


def run(logits, noise, temperature):
    rows, vocab = logits.shape
    tokens = torch.empty((rows,), device=logits.device, dtype=torch.int32)
    probs = torch.empty((rows,), device=logits.device, dtype=torch.float32)
    tops = torch.zeros((rows,), device=logits.device, dtype=torch.int32)
    sums = torch.zeros((rows,), device=logits.device, dtype=torch.float32)
    keys = torch.zeros((rows,), device=logits.device, dtype=torch.int64)
    grid = ((vocab + 4095) // 4096, rows)
    scale = 1.0 / temperature
    module.launch("highest", grid=grid, block=256, args=(logits, tops, vocab))
    module.launch("weigh", grid=grid, block=256, args=(logits, noise, tops, sums, keys, scale, vocab))
    args = (logits, tops, sums, keys, tokens, probs, scale, vocab, rows)
    module.launch("settle", grid=(rows + 127) // 128, block=128, args=args)
    return tokens, probs
