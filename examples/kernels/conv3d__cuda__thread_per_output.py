"""A thread per output voxel and filter with the filter in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void conv_direct(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int d, int h, int w, int o) {
    extern __shared__ float filter[];
    int out = blockIdx.y % o, image = blockIdx.y / o;
    for (int e = threadIdx.x; e < c * 27; e += blockDim.x) filter[e] = weight[out * c * 27 + e];
    __syncthreads();
    int od = d - 2, oh = h - 2, ow = w - 2;
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= od * oh * ow) return;
    const float* src = x + (size_t)image * c * d * h * w + (p / (oh * ow) * h + p / ow % oh) * w + p % ow;
    float sum = 0.0f;
    const float* f = filter;
    for (int ch = 0; ch < c; ++ch, src += (size_t)d * h * w)
        for (int z = 0; z < 3; ++z)
            #pragma unroll
            for (int i = 0; i < 3; ++i)
                #pragma unroll
                for (int j = 0; j < 3; ++j) sum += *f++ * src[(z * h + i) * w + j];
    y[(size_t)blockIdx.y * od * oh * ow + p] = sum;
}
""")


def run(x, weight):
    n, c, d, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, d - 2, h - 2, w - 2), device=x.device, dtype=torch.float32)
    voxels = (d - 2) * (h - 2) * (w - 2)
    args = (x, weight, y, c, d, h, w, o)
    module.launch("conv_direct", grid=((voxels + 255) // 256, n * o), block=256, args=args, shared_bytes=4 * c * 27)
    return y
