"""Radix select: four byte-wide histograms narrow down the k-th key; the k that reach it are then ranked."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void top(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ places, int n, int k) {
    extern __shared__ unsigned keys[];
    unsigned* found = keys + n;
    int* spots = (int*)(found + k);
    __shared__ int bins[256];
    __shared__ int chosen, left, filled;
    int tid = threadIdx.x;
    for (int i = tid; i < n; i += blockDim.x) {
        unsigned bits = __float_as_uint(x[(long long)blockIdx.x * n + i]);
        keys[i] = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    }
    if (tid == 0) { left = k; filled = 0; }
    unsigned prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int b = tid; b < 256; b += blockDim.x) bins[b] = 0;
        __syncthreads();
        for (int i = tid; i < n; i += blockDim.x) {
            unsigned key = keys[i];
            // Only keys that agree with the bytes settled so far take part.
            if (shift == 24 || key >> (shift + 8) == prefix >> (shift + 8)) atomicAdd(bins + (key >> shift & 255u), 1);
        }
        __syncthreads();
        if (tid == 0) {
            int b = 255, need = left;
            while (b > 0 && bins[b] < need) need -= bins[b--];
            chosen = b;
            left = need;
        }
        __syncthreads();
        prefix |= (unsigned)chosen << shift;
    }
    for (int i = tid; i < n; i += blockDim.x) {
        if (keys[i] >= prefix) {
            int at = atomicAdd(&filled, 1);
            if (at < k) { found[at] = keys[i]; spots[at] = i; }
        }
    }
    __syncthreads();
    for (int i = tid; i < k; i += blockDim.x) {
        unsigned key = found[i];
        int rank = 0;
        for (int j = 0; j < k; ++j) rank += found[j] > key || (found[j] == key && j < i);
        values[(long long)blockIdx.x * k + rank] = __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
        places[(long long)blockIdx.x * k + rank] = spots[i];
    }
}
""")


def run(x, k):
    rows, n = x.shape
    values = torch.empty((rows, k), device=x.device, dtype=torch.float32)
    places = torch.empty((rows, k), device=x.device, dtype=torch.int32)
    module.launch("top", grid=rows, block=512, args=(x, values, places, n, k), shared_bytes=4 * (n + 2 * k))
    return values, places
