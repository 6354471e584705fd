"""Filter taps and channels form the inner dimension of a matrix product over gathered pixels."""

import torch
import triton
import triton.language as tl


@triton.jit
def implicit_gemm(
    x_ptr, w_ptr, y_ptr, C, H, W, O, KH, KW, OH, OW, pixels, BP: tl.constexpr, BO: tl.constexpr, BK: tl.constexpr
):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    plane = OH * OW
    image = p // plane
    oh = (p % plane) // OW
    ow = (p % plane) % OW
    depth = C * KH * KW
    corner = image * C * H * W + oh * W + ow
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, depth, BK):
        r = start + tl.arange(0, BK)
        c = r // (KH * KW)
        i = (r // KW) % KH
        j = r % KW
        shift = c * H * W + i * W + j
        x = tl.load(
            x_ptr + corner[None, :] + shift[:, None], mask=(p < pixels)[None, :] & (r < depth)[:, None], other=0.0
        )
        w = tl.load(w_ptr + o[:, None] * depth + r[None, :], mask=(o < O)[:, None] & (r < depth)[None, :], other=0.0)
        acc = tl.dot(w, x, acc, input_precision="tf32x3")
    out = y_ptr + image[None, :] * O * plane + o[:, None] * plane + (p % plane)[None, :]
    tl.store(out, acc, mask=(o < O)[:, None] & (p < pixels)[None, :])


def run(x, weight):
    n, c, h, w = x.shape
    o, _, kh, kw = weight.shape
    oh, ow = h - kh + 1, w - kw + 1
    y = torch.empty((n, o, oh, ow), device=x.device, dtype=torch.float32)
    pixels = n * oh * ow
    grid = (triton.cdiv(pixels, 128), triton.cdiv(o, 64))
    implicit_gemm[grid](
        x, weight, y, c, h, w, o, kh, kw, oh, ow, pixels, BP=128, BO=64, BK=16, num_warps=4, num_stages=2
    )
    return y
