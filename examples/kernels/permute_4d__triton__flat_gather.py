"""Flat over outputs; each element works out batch, head, channel and token and loads from there."""

import torch
import triton
import triton.language as tl


@triton.jit
def gather(x_ptr, y_ptr, S, H, D, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < total
    s = i % S
    d = (i // S) % D
    h = (i // (S * D)) % H
    b = i // (S * D * H)
    v = tl.load(x_ptr + ((b * S + s) * H + h) * D + d, mask=ok)
    tl.store(y_ptr + i, v, mask=ok)


def run(x):
    b, s, h, d = x.shape
    y = torch.empty((b, h, d, s), device=x.device, dtype=x.dtype)
    total = x.numel()
    gather[(triton.cdiv(total, 1024),)](x, y, s, h, d, total, BLOCK=1024, num_warps=4)
    return y
