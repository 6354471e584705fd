"""Flat outputs, each the largest of four guarded loads."""

import torch
import triton
import triton.language as tl


@triton.jit
def pool_flat(x_ptr, y_ptr, W, OW, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = i // OW
    first = 2 * (i % OW) - 2
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for tap in tl.static_range(4):
        at = first + 3 * tap
        v = tl.load(x_ptr + row.to(tl.int64) * W + at, mask=(i < n) & (at >= 0) & (at < W), other=float("-inf"))
        best = tl.maximum(best, v.to(tl.float32))
    tl.store(y_ptr + i, best.to(y_ptr.dtype.element_ty), mask=i < n)


def run(x):
    N, C, W = x.shape
    OW = (W - 6) // 2 + 1
    y = torch.empty((N, C, OW), device=x.device, dtype=x.dtype)
    n = N * C * OW
    pool_flat[(triton.cdiv(n, 1024),)](x, y, W, OW, n, BLOCK=1024, num_warps=4)
    return y
