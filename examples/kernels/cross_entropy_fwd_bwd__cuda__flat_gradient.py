"""A block per row finds its log-sum by an online softmax; then a flat kernel over all pairs writes gradients."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define WARPS 8
extern "C" __global__ void log_sums(const __nv_bfloat16* __restrict__ x, const long long* __restrict__ targets, float* __restrict__ losses, float* __restrict__ logs, int v) {
    __shared__ float tops[WARPS];
    __shared__ float sums[WARPS];
    const __nv_bfloat16* p = x + (long long)blockIdx.x * v;
    float top = -3.0e38f, sum = 0.0f;
    for (int c = threadIdx.x; c < v; c += blockDim.x) {
        float value = __bfloat162float(p[c]);
        if (value > top) {
            sum *= __expf(top - value);
            top = value;
        }
        sum += __expf(value - top);
    }
    for (int s = 16; s > 0; s /= 2) {
        float t = __shfl_xor_sync(0xffffffffu, top, s), u = __shfl_xor_sync(0xffffffffu, sum, s);
        float best = fmaxf(top, t);
        sum = sum * __expf(top - best) + u * __expf(t - best);
        top = best;
    }
    if (threadIdx.x % 32 == 0) { tops[threadIdx.x / 32] = top; sums[threadIdx.x / 32] = sum; }
    __syncthreads();
    if (threadIdx.x == 0) {
        float best = tops[0], all = 0.0f;
        for (int i = 1; i < WARPS; ++i) best = fmaxf(best, tops[i]);
        for (int i = 0; i < WARPS; ++i) all += sums[i] * __expf(tops[i] - best);
        float log_sum = best + logf(all);
        logs[blockIdx.x] = log_sum;
        losses[blockIdx.x] = log_sum - __bfloat162float(p[targets[blockIdx.x]]);
    }
}
extern "C" __global__ void gradients(const __nv_bfloat16* __restrict__ x, const long long* __restrict__ targets, const float* __restrict__ share, const float* __restrict__ logs, __nv_bfloat16* __restrict__ grad, long long total, int v) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        int row = (int)(i / v), c = (int)(i - (long long)row * v);
        float p = __expf(__bfloat162float(x[i]) - logs[row]);
        if (c == targets[row]) p -= 1.0f;
        grad[i] = __float2bfloat16(p * share[row]);
    }
}
""")


def run(logits, targets, loss_grad):
    n, v = logits.shape
    losses = torch.empty((n,), device=logits.device, dtype=torch.float32)
    logs = torch.empty((n,), device=logits.device, dtype=torch.float32)
    grad = torch.empty_like(logits)
    total = n * v
    grid = min((total + 255) // 256, 132 * 64)
    module.launch("log_sums", grid=n, block=256, args=(logits, targets, losses, logs, v))
    module.launch("gradients", grid=grid, block=256, args=(logits, targets, loss_grad, logs, grad, total, v))
    return losses, grad
