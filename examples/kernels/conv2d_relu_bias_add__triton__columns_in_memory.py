"""One kernel writes every pixel's patch out as a column; a second is a plain exact float32 matrix product."""

import torch
import triton
import triton.language as tl


@triton.jit
def unfold(x_ptr, col_ptr, C, H, W, OH, OW, pixels, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r = tl.program_id(1)
    plane = OH * OW
    rest = p % plane
    at = ((p // plane) * C + r // 9) * H * W + (rest // OW + (r // 3) % 3) * W + rest % OW + r % 3
    tl.store(col_ptr + r.to(tl.int64) * pixels + p, tl.load(x_ptr + at, mask=p < pixels, other=0.0), mask=p < pixels)


@triton.jit
def product(
    w_ptr, col_ptr, cb_ptr, b_ptr, y_ptr, O, depth, plane, pixels, BO: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr
):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, depth, BK):
        r = start + tl.arange(0, BK)
        w = tl.load(w_ptr + o[:, None] * depth + r[None, :], mask=(o < O)[:, None] & (r < depth)[None, :], other=0.0)
        x = tl.load(
            col_ptr + r.to(tl.int64)[:, None] * pixels + p[None, :],
            mask=(r < depth)[:, None] & (p < pixels)[None, :],
            other=0.0,
        )
        acc = tl.dot(w, x, acc, input_precision="ieee")
    acc = tl.maximum(acc + tl.load(cb_ptr + o, mask=o < O, other=0.0)[:, None], 0.0)
    acc += tl.load(b_ptr + o, mask=o < O, other=0.0)[:, None]
    to = ((p // plane) * O * plane + p % plane)[None, :] + o[:, None] * plane
    tl.store(y_ptr + to, acc, mask=(o < O)[:, None] & (p < pixels)[None, :])


def run(x, weight, conv_bias, bias):
    n, c, h, w = x.shape
    o = weight.shape[0]
    oh, ow = h - 2, w - 2
    pixels = n * oh * ow
    columns = torch.empty((c * 9, pixels), device=x.device, dtype=torch.float32)
    y = torch.empty((n, o, oh, ow), device=x.device, dtype=torch.float32)
    unfold[(triton.cdiv(pixels, 1024), c * 9)](x, columns, c, h, w, oh, ow, pixels, BLOCK=1024, num_warps=4)
    grid = (triton.cdiv(pixels, 64), triton.cdiv(o, 64))
    product[grid](weight, columns, conv_bias, bias, y, o, c * 9, oh * ow, pixels, BO=64, BP=64, BK=16, num_warps=4)
    return y
