"""Up to a thousand persistent programs leave one partial sum each; the dividing programs add the partials up."""

import torch
import triton
import triton.language as tl


@triton.jit
def partials(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        acc += x * x
    tl.store(part_ptr + tl.program_id(0), tl.sum(acc, axis=0))


@triton.jit
def divide(x_ptr, part_ptr, y_ptr, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    length = tl.sqrt(tl.sum(tl.load(part_ptr + tl.arange(0, COUNT)), axis=0))
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x / length, mask=i < n)


def run(x):
    n = x.numel()
    count = min(1024, triton.next_power_of_2(triton.cdiv(n, 2048)))
    part = torch.empty((count,), device=x.device, dtype=torch.float32)
    y = torch.empty_like(x)
    partials[(count,)](x, part, n, BLOCK=2048, num_warps=8)
    divide[(triton.cdiv(n, 8192),)](x, part, y, n, COUNT=count, BLOCK=8192, num_warps=8)
    return y
