"""A block takes one output row: the two input rows it needs come through shared memory in one coalesced sweep."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define LOWEST __int_as_float(0xff800000)
extern "C" __global__ void pool_row(const float* __restrict__ x, float* __restrict__ y, int h, int w, int oh, int ow) {
    // The larger of the two input rows, column by column, with one guard cell on the left and three on the right.
    extern __shared__ float column_max[];
    int row = blockIdx.x, plane = blockIdx.y;
    const float* src = x + (long long)plane * h * w;
    int top = 2 * row - 1, bottom = 2 * row + 2;
    for (int c = threadIdx.x; c < w + 4; c += blockDim.x) {
        float v = LOWEST;
        int from = c - 1;
        if (from >= 0 && from < w) {
            if (top >= 0) v = src[top * w + from];
            if (bottom < h) v = fmaxf(v, src[bottom * w + from]);
        }
        column_max[c] = v;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < ow; c += blockDim.x)
        y[((long long)plane * oh + row) * ow + c] = fmaxf(column_max[2 * c], column_max[2 * c + 3]);
}
""")


def run(x):
    n, c, h, w = x.shape
    oh, ow = (h - 2) // 2 + 1, (w - 2) // 2 + 1
    y = torch.empty((n, c, oh, ow), device=x.device, dtype=torch.float32)
    module.launch("pool_row", grid=(oh, n * c), block=128, args=(x, y, h, w, oh, ow), shared_bytes=4 * (w + 4))
    return y
