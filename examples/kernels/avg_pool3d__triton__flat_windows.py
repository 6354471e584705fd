"""Flat outputs; each gathers its 27 inputs under a mask."""

import torch
import triton
import triton.language as tl


@triton.jit
def mean27(x_ptr, y_ptr, D, H, W, OD, OH, OW, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < total
    ow = i % OW
    oh = (i // OW) % OH
    od = (i // (OW * OH)) % OD
    plane = (i // (OW * OH * OD)).to(tl.int64)
    s = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in tl.static_range(27):
        d = od * 2 - 1 + t // 9
        h = oh * 2 - 1 + (t // 3) % 3
        w = ow * 2 - 1 + t % 3
        inside = ok & (d >= 0) & (d < D) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        s += tl.load(x_ptr + plane * D * H * W + (d * H + h) * W + w, mask=inside, other=0.0)
    tl.store(y_ptr + i, s * (1.0 / 27.0), mask=ok)


def run(x):
    n, c, d, h, w = x.shape
    od, oh, ow = (d - 1) // 2 + 1, (h - 1) // 2 + 1, (w - 1) // 2 + 1
    y = torch.empty((n, c, od, oh, ow), device=x.device, dtype=torch.float32)
    total = y.numel()
    mean27[(triton.cdiv(total, 256),)](x, y, d, h, w, od, oh, ow, total, BLOCK=256, num_warps=4)
    return y
