"""One program per flat block of four thousand elements, with the language's own sigmoid."""

import torch
import triton
import triton.language as tl


@triton.jit
def sigmoid_flat(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, tl.sigmoid(x), mask=i < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    sigmoid_flat[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=4096, num_warps=8)
    return y
