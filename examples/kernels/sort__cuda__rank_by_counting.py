"""Every number counts those below it and goes straight to its place: n squared comparisons, no exchange."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void sort_rows(const float* __restrict__ x, float* __restrict__ y, int n) {
    extern __shared__ __align__(16) float row[];
    long long base = (long long)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = x[base + i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float mine = row[i];
        int before = 0;
        // Equal numbers keep their order, so that no two share a place; n is a multiple of four.
        for (int j = 0; j < n; j += 4) {
            float4 o = *(const float4*)(row + j);
            before += o.x < mine || (o.x == mine && j < i);
            before += o.y < mine || (o.y == mine && j + 1 < i);
            before += o.z < mine || (o.z == mine && j + 2 < i);
            before += o.w < mine || (o.w == mine && j + 3 < i);
        }
        y[base + before] = mine;
    }
}
""")


def run(x):
    rows, n = x.shape
    y = torch.empty_like(x)
    module.launch("sort_rows", grid=rows, block=max(32, min(256, n)), args=(x, y, n), shared_bytes=4 * n)
    return y
