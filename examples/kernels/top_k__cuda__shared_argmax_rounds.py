"""A row in shared memory and k block-wide searches for the largest packed value-place key."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void top(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ places, int n, int k) {
    extern __shared__ float row[];
    __shared__ unsigned long long best[32];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, warps = blockDim.x / 32;
    for (int i = tid; i < n; i += blockDim.x) row[i] = x[(long long)blockIdx.x * n + i];
    __syncthreads();
    for (int turn = 0; turn < k; ++turn) {
        unsigned long long mine = 0;
        for (int i = tid; i < n; i += blockDim.x) {
            unsigned bits = __float_as_uint(row[i]);
            bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
            unsigned long long key = (unsigned long long)bits << 32 | (unsigned)i;
            mine = key > mine ? key : mine;
        }
        for (int s = 16; s > 0; s /= 2) {
            unsigned long long other = __shfl_xor_sync(0xffffffffu, mine, s);
            mine = other > mine ? other : mine;
        }
        if (lane == 0) best[warp] = mine;
        __syncthreads();
        for (int w = 0; w < warps; ++w) mine = best[w] > mine ? best[w] : mine;
        int place = (int)(mine & 0xffffffffu);
        if (tid == 0) {
            values[(long long)blockIdx.x * k + turn] = row[place];
            places[(long long)blockIdx.x * k + turn] = place;
            row[place] = __uint_as_float(0xff800000u);
        }
        __syncthreads();
    }
}
""")


def run(x, k):
    rows, n = x.shape
    values = torch.empty((rows, k), device=x.device, dtype=torch.float32)
    places = torch.empty((rows, k), device=x.device, dtype=torch.int32)
    module.launch("top", grid=rows, block=256, args=(x, values, places, n, k), shared_bytes=4 * n)
    return values, places
