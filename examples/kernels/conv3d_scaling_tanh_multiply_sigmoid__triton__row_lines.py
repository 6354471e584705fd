"""A tile of rows by columns of one slice for one channel, with its weights as scalars."""

import torch
import triton
import triton.language as tl


@triton.jit
def lines(x_ptr, w_ptr, cb_ptr, s_ptr, b_ptr, y_ptr, C, D, H, W, O, OD, OH, OW, BH: tl.constexpr, BW: tl.constexpr):
    slice_at = tl.program_id(2) % OD
    o = (tl.program_id(2) // OD) % O
    image = (tl.program_id(2) // (OD * O)).to(tl.int64)
    row = tl.program_id(1) * BH + tl.arange(0, BH)
    col = tl.program_id(0) * BW + tl.arange(0, BW)
    ok = (row < OH)[:, None] & (col < OW)[None, :]
    at = x_ptr + (image * C * D + slice_at) * H * W + row[:, None] * W + col[None, :]
    acc = tl.zeros((BH, BW), dtype=tl.float32) + tl.load(cb_ptr + o)
    for k in range(C * 3):
        base = at + ((k // 3) * D + k % 3) * H * W
        for t in tl.static_range(9):
            acc += tl.load(w_ptr + (o * C * 3 + k) * 9 + t) * tl.load(base + (t // 3) * W + t % 3, mask=ok, other=0.0)
    v = (2.0 * tl.sigmoid(2.0 * acc * tl.load(s_ptr + o)) - 1.0) * tl.load(b_ptr + o)
    to = y_ptr + ((image * O + o) * OD + slice_at) * OH * OW + row[:, None] * OW + col[None, :]
    tl.store(to, tl.sigmoid(v), mask=ok)


def run(x, weight, conv_bias, scale, bias):
    n, c, d, h, w = x.shape
    o = weight.shape[0]
    od, oh, ow = d - 2, h - 2, w - 2
    y = torch.empty((n, o, od, oh, ow), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(ow, 32), triton.cdiv(oh, 32), n * o * od)
    lines[grid](x, weight, conv_bias, scale, bias, y, c, d, h, w, o, od, oh, ow, BH=32, BW=32, num_warps=4)
    return y
