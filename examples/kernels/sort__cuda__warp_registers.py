"""A warp a row, all in registers: near pairs swap within a lane, far pairs through shuffles."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
// Lane l holds places l * PER to l * PER + PER - 1 of the result.
template <int PER>
__device__ __forceinline__ void sort_row(const float* __restrict__ x, float* __restrict__ y, int rows) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    long long base = (long long)row * PER * 32;
    float v[PER];
    // Any order will do to start from, so the loads are the coalesced ones.
    #pragma unroll
    for (int r = 0; r < PER; ++r) v[r] = x[base + r * 32 + lane];
    #pragma unroll
    for (int k = 2; k <= PER * 32; k *= 2) {
        #pragma unroll
        for (int j = k / 2; j > 0; j /= 2) {
            if (j >= PER) {
                bool low = ((lane * PER) & j) == 0;
                bool up = ((lane * PER) & k) == 0;
                #pragma unroll
                for (int r = 0; r < PER; ++r) {
                    float other = __shfl_xor_sync(0xffffffffu, v[r], j / PER);
                    v[r] = low == up ? fminf(v[r], other) : fmaxf(v[r], other);
                }
            } else {
                #pragma unroll
                for (int r = 0; r < PER; ++r) {
                    if ((r & j) == 0) {
                        bool up = ((lane * PER + r) & k) == 0;
                        float a = fminf(v[r], v[r + j]), b = fmaxf(v[r], v[r + j]);
                        v[r] = up ? a : b;
                        v[r + j] = up ? b : a;
                    }
                }
            }
        }
    }
    #pragma unroll
    for (int r = 0; r < PER; ++r) y[base + lane * PER + r] = v[r];
}
extern "C" __global__ void sort_1(const float* __restrict__ x, float* __restrict__ y, int rows) { sort_row<1>(x, y, rows); }
extern "C" __global__ void sort_2(const float* __restrict__ x, float* __restrict__ y, int rows) { sort_row<2>(x, y, rows); }
extern "C" __global__ void sort_4(const float* __restrict__ x, float* __restrict__ y, int rows) { sort_row<4>(x, y, rows); }
extern "C" __global__ void sort_8(const float* __restrict__ x, float* __restrict__ y, int rows) { sort_row<8>(x, y, rows); }
extern "C" __global__ void sort_16(const float* __restrict__ x, float* __restrict__ y, int rows) { sort_row<16>(x, y, rows); }
extern "C" __global__ void sort_32(const float* __restrict__ x, float* __restrict__ y, int rows) { sort_row<32>(x, y, rows); }
""")


def run(x):
    rows, n = x.shape
    y = torch.empty_like(x)
    module.launch(f"sort_{n // 32}", grid=(rows + 3) // 4, block=128, args=(x, y, rows))
    return y
