"""A program takes a block of one grid line; thirteen loads with per-axis guards."""

import torch
import triton
import triton.language as tl


@triton.jit
def wave(u_ptr, prev_ptr, v_ptr, courant, D, H, W, BLOCK: tl.constexpr):
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.program_id(1) + tl.zeros((BLOCK,), dtype=tl.int32)
    z = tl.program_id(2) + tl.zeros((BLOCK,), dtype=tl.int32)
    ok = x < W
    line = H * W
    i = z * line + y * W + x
    u = tl.load(u_ptr + i, mask=ok, other=0.0)
    near = tl.load(u_ptr + i - 1, mask=ok & (x >= 1), other=0.0) + tl.load(u_ptr + i + 1, mask=x + 1 < W, other=0.0)
    far = tl.load(u_ptr + i - 2, mask=ok & (x >= 2), other=0.0) + tl.load(u_ptr + i + 2, mask=x + 2 < W, other=0.0)
    near += tl.load(u_ptr + i - W, mask=ok & (y >= 1), other=0.0) + tl.load(
        u_ptr + i + W, mask=ok & (y + 1 < H), other=0.0
    )
    far += tl.load(u_ptr + i - 2 * W, mask=ok & (y >= 2), other=0.0) + tl.load(
        u_ptr + i + 2 * W, mask=ok & (y + 2 < H), other=0.0
    )
    near += tl.load(u_ptr + i - line, mask=ok & (z >= 1), other=0.0) + tl.load(
        u_ptr + i + line, mask=ok & (z + 1 < D), other=0.0
    )
    far += tl.load(u_ptr + i - 2 * line, mask=ok & (z >= 2), other=0.0) + tl.load(
        u_ptr + i + 2 * line, mask=ok & (z + 2 < D), other=0.0
    )
    lap = near * (4.0 / 3.0) - far * (1.0 / 12.0) - 7.5 * u
    prev = tl.load(prev_ptr + i, mask=ok, other=0.0)
    tl.store(v_ptr + i, 2.0 * u - prev + courant * lap, mask=ok)


def run(u, previous, courant):
    d, h, w = u.shape
    v = torch.empty_like(u)
    wave[(triton.cdiv(w, 256), h, d)](u, previous, v, courant, d, h, w, BLOCK=256, num_warps=2)
    return v
