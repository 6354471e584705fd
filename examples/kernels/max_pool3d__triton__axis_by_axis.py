"""A cube's maximum is separable: one kernel pools one axis, launched for depth, height and width in turn."""

import torch
import triton
import triton.language as tl


@triton.jit
def pool_axis(x_ptr, y_ptr, length, pooled, inner, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    outer = i // (pooled * inner)
    o = (i // inner) % pooled
    base = outer * length * inner + i % inner
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for tap in tl.static_range(3):
        at = 2 * o - 1 + 3 * tap
        ok = (i < n) & (at >= 0) & (at < length)
        best = tl.maximum(best, tl.load(x_ptr + base + at * inner, mask=ok, other=float("-inf")))
    tl.store(y_ptr + i, best, mask=i < n)


def run(x):
    N, C, D, H, W = x.shape
    od, oh, ow = (D - 5) // 2 + 1, (H - 5) // 2 + 1, (W - 5) // 2 + 1
    outer = N * C
    sizes = [(D, od, H * W, outer), (H, oh, W, outer * od), (W, ow, 1, outer * od * oh)]
    for length, pooled, inner, outside in sizes:
        n = outside * pooled * inner
        y = torch.empty((n,), device=x.device, dtype=x.dtype)
        pool_axis[(triton.cdiv(n, 1024),)](x, y, length, pooled, inner, n, BLOCK=1024, num_warps=4)
        x = y
    return x.view(N, C, od, oh, ow)
