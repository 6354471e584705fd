"""Four matrix products, one per corner of the pooling square, add into one tile; partial sums go to a second kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def products(
    x_ptr, w_ptr, b_ptr, part_ptr, C, H, W, O, PW, count, BO: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr
):
    image = tl.program_id(2).to(tl.int64)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    at = x_ptr + image * C * H * W + (p // PW) * 2 * W + (p % PW) * 2
    depth = C * 9
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, depth, BK):
        r = start + tl.arange(0, BK)
        shift = (r // 9) * H * W + ((r // 3) % 3) * W + r % 3
        ok = (p < count)[None, :] & (r < depth)[:, None]
        w = tl.load(w_ptr + o[:, None] * depth + r[None, :], mask=(o < O)[:, None] & (r < depth)[None, :], other=0.0)
        for u in tl.static_range(4):
            x = tl.load(at[None, :] + shift[:, None] + (u // 2) * W + u % 2, mask=ok, other=0.0)
            acc = tl.dot(w, x, acc, input_precision="tf32x3")
    v = tl.sigmoid(acc * 0.25 + tl.load(b_ptr + o, mask=o < O, other=0.0)[:, None])
    v = tl.where((o < O)[:, None] & (p < count)[None, :], v, 0.0)
    slot = (image * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
    tl.store(part_ptr + slot, tl.sum(tl.sum(v, axis=1), axis=0))


@triton.jit
def add_up(part_ptr, y_ptr, parts, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(part_ptr + tl.program_id(0) * parts + i, mask=i < parts, other=0.0)
    tl.store(y_ptr + tl.program_id(0), tl.sum(v, axis=0))


def run(x, weight, conv_bias):
    n, c, h, w = x.shape
    o = weight.shape[0]
    ph, pw = (h - 2) // 2, (w - 2) // 2
    across, down = triton.cdiv(ph * pw, 64), triton.cdiv(o, 32)
    parts = torch.empty((n, down, across), device=x.device, dtype=torch.float32)
    y = torch.empty((n,), device=x.device, dtype=torch.float32)
    products[(across, down, n)](x, weight, conv_bias, parts, c, h, w, o, pw, ph * pw, BO=32, BP=64, BK=16, num_warps=4)
    add_up[(n,)](parts, y, across * down, BLOCK=triton.next_power_of_2(across * down), num_warps=1)
    return y
