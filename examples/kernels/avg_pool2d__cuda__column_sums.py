"""Two steps in one block: sums of three rows by column, coalesced, then sums of three neighbouring columns."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void column_sums(const float* __restrict__ x, float* __restrict__ y, int h, int w, int oh, int ow) {
    extern __shared__ float sums[];
    int row = blockIdx.x, plane = blockIdx.y;
    const float* p = x + ((long long)plane * h + 3 * row) * w;
    for (int c = threadIdx.x; c < 3 * ow; c += blockDim.x) sums[c] = p[c] + p[c + w] + p[c + 2 * w];
    __syncthreads();
    for (int c = threadIdx.x; c < ow; c += blockDim.x)
        y[((long long)plane * oh + row) * ow + c] = (sums[3 * c] + sums[3 * c + 1] + sums[3 * c + 2]) * (1.0f / 9.0f);
}
""")


def run(x):
    n, c, h, w = x.shape
    oh, ow = h // 3, w // 3
    y = torch.empty((n, c, oh, ow), device=x.device, dtype=torch.float32)
    module.launch("column_sums", grid=(oh, n * c), block=256, args=(x, y, h, w, oh, ow), shared_bytes=12 * ow)
    return y
