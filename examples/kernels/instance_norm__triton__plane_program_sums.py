"""One program per plane: both sums in one pass over wide blocks, then a second pass that should hit the cache."""

import torch
import triton
import triton.language as tl


@triton.jit
def plane_norm(x_ptr, y_ptr, area, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * area
    s = tl.zeros((BLOCK,), dtype=tl.float32)
    q = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, area, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + i, mask=i < area, other=0.0)
        s += x
        q += x * x
    mean = tl.sum(s, axis=0) / area
    scale = 1.0 / tl.sqrt(tl.sum(q, axis=0) / area - mean * mean + 1e-5)
    for start in range(0, area, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + i, mask=i < area, other=0.0)
        tl.store(y_ptr + base + i, (x - mean) * scale, mask=i < area)


def run(x):
    batch, channels, height, width = x.shape
    y = torch.empty_like(x)
    plane_norm[(batch * channels,)](x, y, height * width, BLOCK=4096, num_warps=16)
    return y
