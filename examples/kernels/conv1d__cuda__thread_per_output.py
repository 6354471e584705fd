"""A thread per output element; only the block's one filter is kept in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void conv_direct(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int l, int o, int ol) {
    extern __shared__ float filter[];
    for (int e = threadIdx.x; e < c * 3; e += blockDim.x) filter[e] = weight[blockIdx.y * c * 3 + e];
    __syncthreads();
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= ol) return;
    const float* src = x + (size_t)blockIdx.z * c * l + p;
    float sum = 0.0f;
    for (int ch = 0; ch < c; ++ch, src += l)
        sum += filter[ch * 3] * src[0] + filter[ch * 3 + 1] * src[1] + filter[ch * 3 + 2] * src[2];
    y[((size_t)blockIdx.z * o + blockIdx.y) * ol + p] = sum;
}
""")


def run(x, weight):
    n, c, length = x.shape
    o = weight.shape[0]
    ol = length - 2
    y = torch.empty((n, o, ol), device=x.device, dtype=torch.float32)
    args = (x, weight, y, c, length, o, ol)
    module.launch("conv_direct", grid=((ol + 255) // 256, o, n), block=256, args=args, shared_bytes=12 * c)
    return y
