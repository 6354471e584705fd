"""A slice of x sits in shared memory while every warp takes rows of A against it; slices meet in atomics."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define SLICE 4096
extern "C" __global__ void gemv_staged(const float* __restrict__ a, const float* __restrict__ x, float* y, int m, int k, int rows_per_block) {
    __shared__ float xs[SLICE];
    int k0 = blockIdx.x * SLICE;
    int len = min(SLICE, k - k0);
    for (int i = threadIdx.x; i < len; i += blockDim.x) xs[i] = x[k0 + i];
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int last = min(m, (int)(blockIdx.y + 1) * rows_per_block);
    for (int r = blockIdx.y * rows_per_block + warp; r < last; r += warps) {
        const float* row = a + (long long)r * k + k0;
        float s = 0.0f;
        #pragma unroll 8
        for (int i = lane; i < len; i += 32) s += row[i] * xs[i];
        for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffffu, s, d);
        if (lane == 0) atomicAdd(y + r, s);
    }
}
""")


def run(a, x):
    m, k = a.shape
    y = torch.zeros((m, 1), device=a.device, dtype=torch.float32)
    rows = 32
    module.launch(
        "gemv_staged", grid=((k + 4095) // 4096, (m + rows - 1) // rows), block=256, args=(a, x, y, m, k, rows)
    )
    return y
