"""Even and odd outputs are two ordinary convolutions of two taps each; both are kept and interleaved on the way out."""

import torch
import triton
import triton.language as tl


@triton.jit
def even_odd(x_ptr, w_ptr, y_ptr, C, L, OC, BO: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr):
    n = tl.program_id(2).to(tl.int64)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    m0 = tl.program_id(0) * BP
    m = m0 + tl.arange(0, BP)
    even = tl.zeros((BO, BP), dtype=tl.float32)
    odd = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        src = x_ptr + (n * C + c[:, None]) * L + m[None, :]
        known = (c < C)[:, None]
        here = tl.load(src, mask=known & (m < L)[None, :], other=0.0)
        left = tl.load(src - 1, mask=known & ((m >= 1) & (m <= L))[None, :], other=0.0)
        right = tl.load(src + 1, mask=known & (m + 1 < L)[None, :], other=0.0)
        tap = w_ptr + (c[None, :] * OC + o[:, None]) * 4
        ok = (o < OC)[:, None] & (c < C)[None, :]
        even = tl.dot(tl.load(tap + 1, mask=ok, other=0.0), here, even, input_precision="ieee")
        even = tl.dot(tl.load(tap + 3, mask=ok, other=0.0), left, even, input_precision="ieee")
        odd = tl.dot(tl.load(tap, mask=ok, other=0.0), right, odd, input_precision="ieee")
        odd = tl.dot(tl.load(tap + 2, mask=ok, other=0.0), here, odd, input_precision="ieee")
    t = 2 * m0 + tl.arange(0, 2 * BP)
    out = y_ptr + (n * OC + o[:, None]) * 2 * L + t[None, :]
    tl.store(out, tl.interleave(even, odd), mask=(o < OC)[:, None] & (t < 2 * L)[None, :])


def run(x, weight):
    N, C, L = x.shape
    OC = weight.shape[1]
    y = torch.empty((N, OC, 2 * L), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(L, 64), triton.cdiv(OC, 32), N)
    even_odd[grid](x, weight, y, C, L, OC, BO=32, BC=16, BP=64, num_warps=4, num_stages=2)
    return y
