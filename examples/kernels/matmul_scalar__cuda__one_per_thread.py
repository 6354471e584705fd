"""One element a thread."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void scale(const float* a, float* c, float s, long long total) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) c[i] = a[i] * s;
}
""")


def run(a, s):
    c = torch.empty_like(a)
    total = a.numel()
    module.launch("scale", grid=(total + 255) // 256, block=256, args=(a, c, float(s), total))
    return c
