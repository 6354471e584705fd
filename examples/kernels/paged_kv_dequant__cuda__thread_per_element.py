"""The plain way: one thread writes one number and looks everything up itself."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
extern "C" __global__ void dequant(const signed char* __restrict__ pages, const float* __restrict__ scales, const int* __restrict__ table, __nv_bfloat16* __restrict__ out, int per_page, int dim) {
    // The first grid axis counts pages of the output.
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= per_page) return;
    long long source = (long long)table[blockIdx.x] * per_page + i;
    out[(long long)blockIdx.x * per_page + i] = __float2bfloat16((float)pages[source] * scales[source / dim]);
}
""")


def run(pages, scales, page_table):
    b, width = page_table.shape
    _, page, heads, dim = pages.shape
    out = torch.empty((b, width * page, heads, dim), device=pages.device, dtype=torch.bfloat16)
    per_page = page * heads * dim
    module.launch(
        "dequant",
        grid=(b * width, (per_page + 255) // 256),
        block=256,
        args=(pages, scales, page_table, out, per_page, dim),
    )
    return out
