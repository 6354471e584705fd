"""Flat blocks; loads and stores marked as not worth keeping in the cache."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale(a_ptr, c_ptr, s, total, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    a = tl.load(a_ptr + i, mask=inside, eviction_policy="evict_first")
    tl.store(c_ptr + i, a * s, mask=inside, eviction_policy="evict_first")


def run(a, s):
    c = torch.empty_like(a)
    total = a.numel()
    scale[(triton.cdiv(total, 2048),)](a, c, s, total, BLOCK=2048, num_warps=4)
    return c
