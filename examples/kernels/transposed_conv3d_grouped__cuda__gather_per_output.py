"""A thread per output voxel loops over the taps its parities allow; the filter bank column is in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void gather(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int cg, int d, int h, int w, int og) {
    extern __shared__ float taps[];
    int out = blockIdx.y % (4 * og), image = blockIdx.y / (4 * og), g = out / og;
    for (int e = threadIdx.x; e < cg * 27; e += blockDim.x)
        taps[e] = weight[((g * cg + e / 27) * og + out % og) * 27 + e % 27];
    __syncthreads();
    int od = 2 * d - 1, oh = 2 * h - 1, ow = 2 * w - 1;
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= od * oh * ow) return;
    int z = p / (oh * ow), r = p / ow % oh, q = p % ow;
    const float* src = x + (size_t)(image * 4 + g) * cg * d * h * w;
    float sum = 0.0f;
    // An even coordinate takes tap 1 alone; an odd one takes taps 0 and 2.
    for (int kz = (z + 1) % 2; kz < 3; kz += 2)
        for (int kr = (r + 1) % 2; kr < 3; kr += 2)
            for (int kq = (q + 1) % 2; kq < 3; kq += 2) {
                int at = ((z + 1 - kz) / 2 * h + (r + 1 - kr) / 2) * w + (q + 1 - kq) / 2;
                const float* f = taps + (kz * 3 + kr) * 3 + kq;
                for (int ch = 0; ch < cg; ++ch) sum += f[ch * 27] * src[(size_t)ch * d * h * w + at];
            }
    y[(size_t)blockIdx.y * od * oh * ow + p] = sum;
}
""")


def run(x, weight):
    n, c, d, h, w = x.shape
    og = weight.shape[1]
    y = torch.empty((n, 4 * og, 2 * d - 1, 2 * h - 1, 2 * w - 1), device=x.device, dtype=torch.float32)
    voxels = (2 * d - 1) * (2 * h - 1) * (2 * w - 1)
    grid = ((voxels + 255) // 256, n * 4 * og)
    args = (x, weight, y, c // 4, d, h, w, og)
    module.launch("gather", grid=grid, block=256, args=args, shared_bytes=4 * (c // 4) * 27)
    return y
