"""A warp a token-head row, four numbers a lane, with the page's scales staged in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
extern "C" __global__ void dequant(const signed char* __restrict__ pages, const float* __restrict__ scales, const int* __restrict__ table, __nv_bfloat16* __restrict__ out, int rows, int dim) {
    extern __shared__ float scale[];
    long long page = table[blockIdx.x];
    for (int r = threadIdx.x; r < rows; r += blockDim.x) scale[r] = scales[page * rows + r];
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int r = warp; r < rows; r += warps) {
        const signed char* from = pages + (page * rows + r) * dim;
        __nv_bfloat16* to = out + ((long long)blockIdx.x * rows + r) * dim;
        float s = scale[r];
        for (int d = lane * 4; d < dim; d += 128) {
            unsigned w = *(const unsigned*)(from + d);
            __nv_bfloat162 low = __floats2bfloat162_rn((float)(signed char)w * s, (float)(signed char)(w >> 8) * s);
            __nv_bfloat162 high = __floats2bfloat162_rn((float)(signed char)(w >> 16) * s, (float)(signed char)(w >> 24) * s);
            *(uint2*)(to + d) = make_uint2(*(unsigned*)&low, *(unsigned*)&high);
        }
    }
}
""")


def run(pages, scales, page_table):
    b, width = page_table.shape
    _, page, heads, dim = pages.shape
    out = torch.empty((b, width * page, heads, dim), device=pages.device, dtype=torch.bfloat16)
    rows = page * heads
    module.launch(
        "dequant", grid=b * width, block=256, args=(pages, scales, page_table, out, rows, dim), shared_bytes=4 * rows
    )
    return out
