"""Direct convolution: a tile of output channels times output pixels, one filter tap at a time."""

import torch
import triton
import triton.language as tl


@triton.jit
def direct(x_ptr, w_ptr, y_ptr, C, H, W, O, KH, KW, OH, OW, BO: tl.constexpr, BP: tl.constexpr):
    image = tl.program_id(2)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    ok = p < OH * OW
    oh = p // OW
    ow = p % OW
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for c in range(C):
        for i in range(KH):
            for j in range(KW):
                x = tl.load(x_ptr + ((image * C + c) * H + oh + i) * W + ow + j, mask=ok, other=0.0)
                w = tl.load(w_ptr + ((o * C + c) * KH + i) * KW + j, mask=o < O, other=0.0)
                acc += w[:, None] * x[None, :]
    out = y_ptr + (image * O + o[:, None]) * (OH * OW) + p[None, :]
    tl.store(out, acc, mask=(o < O)[:, None] & ok[None, :])


def run(x, weight):
    n, c, h, w = x.shape
    o, _, kh, kw = weight.shape
    oh, ow = h - kh + 1, w - kw + 1
    y = torch.empty((n, o, oh, ow), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(oh * ow, 256), triton.cdiv(o, 16), n)
    direct[grid](x, weight, y, c, h, w, o, kh, kw, oh, ow, BO=16, BP=256, num_warps=4)
    return y
