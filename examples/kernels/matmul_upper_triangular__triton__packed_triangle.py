"""Programs are numbered along the triangle only, by the distance from the diagonal; the rest starts as zeros."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, N, tiles, B: tl.constexpr, BK: tl.constexpr):
    # Diagonal number `tiles - 1` has one tile and the longest sums; program numbers grow from there inwards.
    pid = tl.program_id(0)
    width = ((tl.sqrt(8.0 * pid + 1.0) - 1.0) * 0.5).to(tl.int32)
    width += tl.where((width + 1) * (width + 2) // 2 <= pid, 1, 0)
    width -= tl.where(width * (width + 1) // 2 > pid, 1, 0)
    row = pid - width * (width + 1) // 2
    m0 = row * B
    n0 = (row + tiles - 1 - width) * B
    rm = m0 + tl.arange(0, B)
    rn = n0 + tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in range(m0, n0 + B, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * N + rk[None, :], mask=(rm < N)[:, None] & (rk < N)[None, :], other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk < N)[:, None] & (rn < N)[None, :], other=0.0)
        acc += tl.dot(a, b)
    out = acc.to(tl.bfloat16)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], out, mask=(rm < N)[:, None] & (rn < N)[None, :])


def run(a, b):
    n = a.shape[0]
    c = torch.zeros_like(a)
    tiles = triton.cdiv(n, 64)
    product[(tiles * (tiles + 1) // 2,)](a, b, c, n, tiles, B=64, BK=64, num_warps=4, num_stages=4)
    return c
