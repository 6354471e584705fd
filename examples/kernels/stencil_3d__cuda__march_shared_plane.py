"""The current plane with a two-cell rim lies in shared memory; the depth neighbours are a five-deep register queue."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define BX 32
#define BY 8
extern "C" __global__ void wave_march(const float* __restrict__ u, const float* __restrict__ previous, float* __restrict__ v, float courant, int d, int h, int w, int span) {
    __shared__ float plane[BY + 4][BX + 4];
    int tx = threadIdx.x, ty = threadIdx.y, tid = ty * BX + tx;
    int x = blockIdx.x * BX + tx, y = blockIdx.y * BY + ty;
    bool inside = x < w && y < h;
    long long line = (long long)h * w, yx = (long long)y * w + x;
    int z0 = blockIdx.z * span, z1 = min(d, z0 + span);
    float b2 = inside && z0 >= 2 ? u[(z0 - 2) * line + yx] : 0.0f;
    float b1 = inside && z0 >= 1 ? u[(z0 - 1) * line + yx] : 0.0f;
    float m = inside ? u[z0 * line + yx] : 0.0f;
    float f1 = inside && z0 + 1 < d ? u[(z0 + 1) * line + yx] : 0.0f;
    for (int z = z0; z < z1; ++z) {
        float f2 = inside && z + 2 < d ? u[(z + 2) * line + yx] : 0.0f;
        __syncthreads();
        for (int e = tid; e < (BY + 4) * (BX + 4); e += BX * BY) {
            int r = e / (BX + 4), c = e % (BX + 4);
            int gy = (int)blockIdx.y * BY + r - 2, gx = (int)blockIdx.x * BX + c - 2;
            plane[r][c] = (gy >= 0 && gy < h && gx >= 0 && gx < w) ? u[z * line + (long long)gy * w + gx] : 0.0f;
        }
        __syncthreads();
        float near = b1 + f1 + plane[ty + 1][tx + 2] + plane[ty + 3][tx + 2] + plane[ty + 2][tx + 1] + plane[ty + 2][tx + 3];
        float far = b2 + f2 + plane[ty][tx + 2] + plane[ty + 4][tx + 2] + plane[ty + 2][tx] + plane[ty + 2][tx + 4];
        if (inside) {
            float lap = 4.0f / 3.0f * near - far / 12.0f - 7.5f * m;
            v[z * line + yx] = 2.0f * m - previous[z * line + yx] + courant * lap;
        }
        b2 = b1; b1 = m; m = f1; f1 = f2;
    }
}
""")


def run(u, previous, courant):
    d, h, w = u.shape
    v = torch.empty_like(u)
    span = 32
    grid = ((w + 31) // 32, (h + 7) // 8, (d + span - 1) // span)
    module.launch("wave_march", grid=grid, block=(32, 8), args=(u, previous, v, float(courant), d, h, w, span))
    return v
