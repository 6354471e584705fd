"""A program owns lines of a plane and 32 filters; depth and row taps loop, column taps unroll, all as outer products."""

import torch
import triton
import triton.language as tl


@triton.jit
def line_products(x_ptr, w_ptr, y_ptr, C, D, H, W, OC, OD, OH, OW, BO: tl.constexpr, BP: tl.constexpr):
    n = (tl.program_id(1) // OD).to(tl.int64)
    d = tl.program_id(1) % OD
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(2) * BO + tl.arange(0, BO)
    inside = p < OH * OW
    place = (p // OW) * W + p % OW
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for c in range(0, C):
        for t in range(0, 9):
            src = x_ptr + (((n * C + c) * D + d + t // 3) * H + t % 3) * W + place
            tap = w_ptr + (o * C + c) * 27 + t * 3
            for j in tl.static_range(3):
                xs = tl.load(src + j, mask=inside, other=0.0)
                wt = tl.load(tap + j, mask=o < OC, other=0.0)
                acc += wt[:, None] * xs[None, :]
    out = y_ptr + ((n * OC + o[:, None]) * OD + d) * OH * OW + p[None, :]
    tl.store(out, acc, mask=(o < OC)[:, None] & inside[None, :])


def run(x, weight):
    N, C, D, H, W = x.shape
    OC = weight.shape[0]
    OD, OH, OW = D - 2, H - 2, W - 2
    y = torch.empty((N, OC, OD, OH, OW), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(OH * OW, 128), N * OD, triton.cdiv(OC, 32))
    line_products[grid](x, weight, y, C, D, H, W, OC, OD, OH, OW, BO=32, BP=128, num_warps=4)
    return y
