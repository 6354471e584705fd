"""A warp per row, one number per lane at a time: maximum, then sum, then gradient."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
extern "C" __global__ void sweeps(const __nv_bfloat16* __restrict__ x, const long long* __restrict__ targets, const float* __restrict__ share, float* __restrict__ losses, __nv_bfloat16* __restrict__ grad, int n, int v) {
    int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= n) return;
    const __nv_bfloat16* p = x + (long long)row * v;
    __nv_bfloat16* out = grad + (long long)row * v;
    float top = -3.0e38f;
    for (int c = lane; c < v; c += 32) top = fmaxf(top, __bfloat162float(p[c]));
    for (int s = 16; s > 0; s /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, s));
    float sum = 0.0f;
    for (int c = lane; c < v; c += 32) sum += __expf(__bfloat162float(p[c]) - top);
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
    int target = (int)targets[row];
    float scale = share[row], inverse = scale / sum;
    if (lane == 0) losses[row] = top + logf(sum) - __bfloat162float(p[target]);
    for (int c = lane; c < v; c += 32) {
        float q = __expf(__bfloat162float(p[c]) - top) * inverse;
        out[c] = __float2bfloat16(c == target ? q - scale : q);
    }
}
""")


def run(logits, targets, loss_grad):
    n, v = logits.shape
    losses = torch.empty((n,), device=logits.device, dtype=torch.float32)
    grad = torch.empty_like(logits)
    module.launch("sweeps", grid=(n + 3) // 4, block=128, args=(logits, targets, loss_grad, losses, grad, n, v))
    return losses, grad
