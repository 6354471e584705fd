"""A thread per output pixel and channel; the block keeps its one filter in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void conv_direct(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int h, int w, int o, int oh, int ow) {
    extern __shared__ float filter[];
    for (int e = threadIdx.x; e < c * 9; e += blockDim.x) filter[e] = weight[blockIdx.y * c * 9 + e];
    __syncthreads();
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= oh * ow) return;
    const float* src = x + (size_t)blockIdx.z * c * h * w + p / ow * w + p % ow;
    float sum = 0.0f;
    for (int ch = 0; ch < c; ++ch, src += h * w) {
        const float* f = filter + ch * 9;
        #pragma unroll
        for (int i = 0; i < 3; ++i)
            #pragma unroll
            for (int j = 0; j < 3; ++j) sum += f[i * 3 + j] * src[i * w + j];
    }
    y[((size_t)blockIdx.z * o + blockIdx.y) * oh * ow + p] = sum;
}
""")


def run(x, weight):
    n, c, h, w = x.shape
    o = weight.shape[0]
    oh, ow = h - 2, w - 2
    y = torch.empty((n, o, oh, ow), device=x.device, dtype=torch.float32)
    grid = ((oh * ow + 255) // 256, o, n)
    args = (x, weight, y, c, h, w, o, oh, ow)
    module.launch("conv_direct", grid=grid, block=256, args=args, shared_bytes=4 * c * 9)
    return y
