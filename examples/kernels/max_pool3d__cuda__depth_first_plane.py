"""A block folds three planes into one in shared memory, then pools that plane by rows and by columns."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void pool_plane(const float* __restrict__ x, float* __restrict__ y, int d, int h, int w, int od, int oh, int ow) {
    extern __shared__ float plane[];
    float* rows = plane + h * w;
    int area = h * w, z0 = blockIdx.x * 2 - 1;
    const float* volume = x + (size_t)blockIdx.y * d * area;
    float none = __int_as_float(0xff800000);
    bool below = z0 >= 0, above = z0 + 6 < d, middle = z0 + 3 < d;
    for (int e = threadIdx.x; e < area; e += blockDim.x) {
        float a = below ? volume[z0 * area + e] : none;
        float b = middle ? volume[(z0 + 3) * area + e] : none;
        float c = above ? volume[(z0 + 6) * area + e] : none;
        plane[e] = fmaxf(a, fmaxf(b, c));
    }
    __syncthreads();
    for (int e = threadIdx.x; e < oh * w; e += blockDim.x) {
        int r = e / w * 2 - 1, c = e % w;
        float best = plane[(r + 3) * w + c];
        if (r >= 0) best = fmaxf(best, plane[r * w + c]);
        if (r + 6 < h) best = fmaxf(best, plane[(r + 6) * w + c]);
        rows[e] = best;
    }
    __syncthreads();
    float* out = y + ((size_t)blockIdx.y * od + blockIdx.x) * oh * ow;
    for (int e = threadIdx.x; e < oh * ow; e += blockDim.x) {
        const float* row = rows + e / ow * w;
        int c = e % ow * 2 - 1;
        float best = row[c + 3];
        if (c >= 0) best = fmaxf(best, row[c]);
        if (c + 6 < w) best = fmaxf(best, row[c + 6]);
        out[e] = best;
    }
}
""")


def run(x):
    n, c, d, h, w = x.shape
    od, oh, ow = (d - 5) // 2 + 1, (h - 5) // 2 + 1, (w - 5) // 2 + 1
    y = torch.empty((n, c, od, oh, ow), device=x.device, dtype=x.dtype)
    args = (x, y, d, h, w, od, oh, ow)
    module.launch("pool_plane", grid=(od, n * c), block=256, args=args, shared_bytes=4 * (h * w + oh * w))
    return y
