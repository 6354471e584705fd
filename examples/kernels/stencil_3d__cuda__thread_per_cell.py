"""Direct: one thread a cell, caches do the reuse."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float cell(const float* u, int z, int y, int x, int d, int h, int w) {
    bool inside = z >= 0 && z < d && y >= 0 && y < h && x >= 0 && x < w;
    return inside ? u[((long long)z * h + y) * w + x] : 0.0f;
}
extern "C" __global__ void wave(const float* __restrict__ u, const float* __restrict__ previous, float* __restrict__ v, float courant, int d, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x >= w || y >= h) return;
    float near = cell(u, z - 1, y, x, d, h, w) + cell(u, z + 1, y, x, d, h, w);
    near += cell(u, z, y - 1, x, d, h, w) + cell(u, z, y + 1, x, d, h, w);
    near += cell(u, z, y, x - 1, d, h, w) + cell(u, z, y, x + 1, d, h, w);
    float far = cell(u, z - 2, y, x, d, h, w) + cell(u, z + 2, y, x, d, h, w);
    far += cell(u, z, y - 2, x, d, h, w) + cell(u, z, y + 2, x, d, h, w);
    far += cell(u, z, y, x - 2, d, h, w) + cell(u, z, y, x + 2, d, h, w);
    long long i = ((long long)z * h + y) * w + x;
    float m = u[i];
    v[i] = 2.0f * m - previous[i] + courant * (4.0f / 3.0f * near - 1.0f / 12.0f * far - 7.5f * m);
}
""")


def run(u, previous, courant):
    d, h, w = u.shape
    v = torch.empty_like(u)
    grid = ((w + 63) // 64, (h + 3) // 4, d)
    module.launch("wave", grid=grid, block=(64, 4), args=(u, previous, v, float(courant), d, h, w))
    return v
