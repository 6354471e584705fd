"""A fixed grid strides over the data; the logarithm is a seven-term series in t / (2 + t) instead of an instruction."""

import torch
import triton
import triton.language as tl


@triton.jit
def softplus_series(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        t = tl.exp(-tl.abs(x))
        s = t / (2.0 + t)
        q = s * s
        p = 1.0 / 13.0
        p = 1.0 / 11.0 + q * p
        p = 1.0 / 9.0 + q * p
        p = 1.0 / 7.0 + q * p
        p = 1.0 / 5.0 + q * p
        p = 1.0 / 3.0 + q * p
        tl.store(y_ptr + i, tl.maximum(x, 0.0) + 2.0 * (s + s * q * p), mask=i < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    grid = (max(1, min(triton.cdiv(n, 2048), 132 * 6)),)
    softplus_series[grid](x, y, n, BLOCK=2048, num_warps=8)
    return y
