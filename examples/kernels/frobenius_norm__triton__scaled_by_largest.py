"""The careful way: the largest magnitude first, then squares of the scaled elements, then the quotient."""

import torch
import triton
import triton.language as tl


@triton.jit
def block_largest(x_ptr, max_ptr, n, BLOCK: tl.constexpr):
    best = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.abs(tl.load(x_ptr + i, mask=i < n, other=0.0)))
    tl.store(max_ptr + tl.program_id(0), tl.max(best, axis=0))


@triton.jit
def block_squares(x_ptr, max_ptr, sum_ptr, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    largest = tl.max(tl.load(max_ptr + tl.arange(0, COUNT)), axis=0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        u = tl.load(x_ptr + i, mask=i < n, other=0.0) / largest
        acc += u * u
    tl.store(sum_ptr + tl.program_id(0), tl.sum(acc, axis=0))


@triton.jit
def quotient(x_ptr, max_ptr, sum_ptr, y_ptr, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    largest = tl.max(tl.load(max_ptr + tl.arange(0, COUNT)), axis=0)
    length = largest * tl.sqrt(tl.sum(tl.load(sum_ptr + tl.arange(0, COUNT)), axis=0))
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) / length, mask=i < n)


def run(x):
    n = x.numel()
    count = min(512, triton.next_power_of_2(triton.cdiv(n, 1024)))
    largest = torch.empty((count,), device=x.device, dtype=torch.float32)
    sums = torch.empty((count,), device=x.device, dtype=torch.float32)
    y = torch.empty_like(x)
    block_largest[(count,)](x, largest, n, BLOCK=1024, num_warps=4)
    block_squares[(count,)](x, largest, sums, n, COUNT=count, BLOCK=1024, num_warps=4)
    quotient[(count,)](x, largest, sums, y, n, COUNT=count, BLOCK=1024, num_warps=4)
    return y
