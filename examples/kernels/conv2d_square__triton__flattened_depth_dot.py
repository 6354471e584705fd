"""A matrix product over the flattened depth of channels and taps, with all images' pixels in one row of tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def flattened(x_ptr, w_ptr, y_ptr, C, H, W, OC, OH, OW, pixels, BO: tl.constexpr, BK: tl.constexpr, BP: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    plane = OH * OW
    image = p // plane
    corner = image * C * H * W + ((p % plane) // OW) * W + (p % plane) % OW
    depth = C * 9
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, depth, BK):
        r = start + tl.arange(0, BK)
        shift = (r // 9) * H * W + ((r // 3) % 3) * W + r % 3
        wt = tl.load(w_ptr + o[:, None] * depth + r[None, :], mask=(o < OC)[:, None] & (r < depth)[None, :], other=0.0)
        xs = tl.load(
            x_ptr + corner[None, :] + shift[:, None], mask=(r < depth)[:, None] & (p < pixels)[None, :], other=0.0
        )
        acc = tl.dot(wt, xs, acc, input_precision="ieee")
    out = y_ptr + (image * OC * plane + p % plane)[None, :] + o[:, None] * plane
    tl.store(out, acc, mask=(o < OC)[:, None] & (p < pixels)[None, :])


def run(x, weight):
    N, C, H, W = x.shape
    OC = weight.shape[0]
    OH, OW = H - 2, W - 2
    y = torch.empty((N, OC, OH, OW), device=x.device, dtype=torch.float32)
    pixels = N * OH * OW
    grid = (triton.cdiv(pixels, 64), triton.cdiv(OC, 64))
    flattened[grid](x, weight, y, C, H, W, OC, OH, OW, pixels, BO=64, BK=16, BP=64, num_warps=4, num_stages=3)
    return y
