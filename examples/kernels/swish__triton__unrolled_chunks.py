"""A program takes four neighbouring blocks of 1024, unrolled at compile time, with the language's sigmoid."""

import torch
import triton
import triton.language as tl


@triton.jit
def swish_chunks(x_ptr, y_ptr, n, BLOCK: tl.constexpr, PIECES: tl.constexpr):
    start = tl.program_id(0) * (BLOCK * PIECES)
    for piece in tl.static_range(PIECES):
        i = start + piece * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        tl.store(y_ptr + i, x * tl.sigmoid(x), mask=i < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    swish_chunks[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=1024, PIECES=4, num_warps=4)
    return y
