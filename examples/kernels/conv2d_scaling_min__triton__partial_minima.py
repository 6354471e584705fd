"""Groups of sixteen filters in parallel by outer products, each leaving its minimum for a second kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def group_min(x_ptr, w_ptr, b_ptr, part_ptr, C, H, W, O, OH, OW, pixels, BO: tl.constexpr, BP: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    plane = OH * OW
    rest = p % plane
    corner = x_ptr + (p // plane) * C * H * W + (rest // OW) * W + rest % OW
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for c in range(C):
        for t in tl.static_range(9):
            x = tl.load(corner + c * H * W + (t // 3) * W + t % 3, mask=p < pixels, other=0.0)
            w = tl.load(w_ptr + (o * C + c) * 9 + t, mask=o < O, other=0.0)
            acc += w[:, None] * x[None, :]
    acc = (acc + tl.load(b_ptr + o, mask=o < O, other=float("inf"))[:, None]) * 2.0
    tl.store(part_ptr + tl.program_id(1).to(tl.int64) * pixels + p, tl.min(acc, axis=0), mask=p < pixels)


@triton.jit
def compare(part_ptr, y_ptr, groups, pixels, BP: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    best = tl.load(part_ptr + p, mask=p < pixels, other=0.0)
    for g in range(1, groups):
        best = tl.minimum(best, tl.load(part_ptr + g * pixels + p, mask=p < pixels, other=0.0))
    tl.store(y_ptr + p, best, mask=p < pixels)


def run(x, weight, conv_bias):
    n, c, h, w = x.shape
    o = weight.shape[0]
    oh, ow = h - 2, w - 2
    pixels = n * oh * ow
    groups = triton.cdiv(o, 16)
    parts = torch.empty((groups, pixels), device=x.device, dtype=torch.float32)
    y = torch.empty((n, 1, oh, ow), device=x.device, dtype=torch.float32)
    group_min[(triton.cdiv(pixels, 256), groups)](
        x, weight, conv_bias, parts, c, h, w, o, oh, ow, pixels, BO=16, BP=256, num_warps=8
    )
    compare[(triton.cdiv(pixels, 1024),)](parts, y, groups, pixels, BP=1024, num_warps=4)
    return y
