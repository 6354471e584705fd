"""264 programs, two a multiprocessor of an H200, each scaling one long contiguous range block by block."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_range(a_ptr, c_ptr, s, total, span, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * span
    end = min(begin + span, total)
    lane = tl.arange(0, BLOCK)
    for at in range(begin, end, BLOCK):
        i = at + lane
        a = tl.load(a_ptr + i, mask=i < end)
        tl.store(c_ptr + i, a * s, mask=i < end)


def run(a, s):
    c = torch.empty_like(a)
    total = a.numel()
    programs = 264
    span = triton.cdiv(triton.cdiv(total, programs), 16) * 16
    scale_range[(triton.cdiv(total, span),)](a, c, s, total, span, BLOCK=4096, num_warps=8)
    return c
