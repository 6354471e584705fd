"""Winograd's F(2,3) along the width: four products make two neighbouring outputs that would need six."""

import torch
import triton
import triton.language as tl


@triton.jit
def winograd(x_ptr, w_ptr, y_ptr, C, H, W, OC, OH, OW, TW, tiles, BO: tl.constexpr, BK: tl.constexpr, BT: tl.constexpr):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    column = 2 * (t % TW)
    row = (t // TW) % OH
    image = t // (TW * OH)
    corner = image * C * H * W + row * W + column
    depth = C * 3  # channels and filter rows
    m0 = tl.zeros((BO, BT), dtype=tl.float32)
    m1 = tl.zeros((BO, BT), dtype=tl.float32)
    m2 = tl.zeros((BO, BT), dtype=tl.float32)
    m3 = tl.zeros((BO, BT), dtype=tl.float32)
    for start in range(0, depth, BK):
        r = start + tl.arange(0, BK)
        src = x_ptr + corner[None, :] + ((r // 3) * H * W + (r % 3) * W)[:, None]
        ok = (r < depth)[:, None] & (t < tiles)[None, :]
        d0 = tl.load(src, mask=ok, other=0.0)
        d1 = tl.load(src + 1, mask=ok, other=0.0)
        d2 = tl.load(src + 2, mask=ok, other=0.0)
        d3 = tl.load(src + 3, mask=ok & (column + 3 < W)[None, :], other=0.0)
        tap = w_ptr + (o[:, None] * depth + r[None, :]) * 3
        known = (o < OC)[:, None] & (r < depth)[None, :]
        g0 = tl.load(tap, mask=known, other=0.0)
        g1 = tl.load(tap + 1, mask=known, other=0.0)
        g2 = tl.load(tap + 2, mask=known, other=0.0)
        m0 = tl.dot(g0, d0 - d2, m0, input_precision="ieee")
        m1 = tl.dot(0.5 * (g0 + g1 + g2), d1 + d2, m1, input_precision="ieee")
        m2 = tl.dot(0.5 * (g0 - g1 + g2), d2 - d1, m2, input_precision="ieee")
        m3 = tl.dot(g2, d1 - d3, m3, input_precision="ieee")
    out = y_ptr + (image * OC * OH * OW + row * OW + column)[None, :] + o[:, None] * OH * OW
    ok = (o < OC)[:, None] & (t < tiles)[None, :]
    tl.store(out, m0 + m1 + m2, mask=ok)
    tl.store(out + 1, m1 - m2 - m3, mask=ok & (column + 1 < OW)[None, :])


def run(x, weight):
    N, C, H, W = x.shape
    OC = weight.shape[0]
    OH, OW = H - 2, W - 2
    TW = triton.cdiv(OW, 2)
    tiles = N * OH * TW
    y = torch.empty((N, OC, OH, OW), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(tiles, 32), triton.cdiv(OC, 32))
    winograd[grid](x, weight, y, C, H, W, OC, OH, OW, TW, tiles, BO=32, BK=16, BT=32, num_warps=4, num_stages=2)
    return y
