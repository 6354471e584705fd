"""Input side: a program spreads its voxels through one of the 27 taps and adds the result into the output."""

import torch
import triton
import triton.language as tl


@triton.jit
def scatter(x_ptr, w_ptr, y_ptr, CG, D, H, W, OG, BO: tl.constexpr, BP: tl.constexpr):
    group = tl.program_id(1).to(tl.int64)  # image and channel group
    g = tl.program_id(1) % 4
    tap = tl.program_id(2)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.arange(0, BO)
    inside = p < D * H * W
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for c in range(0, CG):
        xs = tl.load(x_ptr + (group * CG + c) * D * H * W + p, mask=inside, other=0.0)
        wt = tl.load(w_ptr + ((g * CG + c) * OG + o) * 27 + tap, mask=o < OG, other=0.0)
        acc += wt[:, None] * xs[None, :]
    OD = 2 * D - 1
    OH = 2 * H - 1
    OW = 2 * W - 1
    d = 2 * (p // (H * W)) - 1 + tap // 9
    h = 2 * ((p // W) % H) - 1 + (tap // 3) % 3
    w = 2 * (p % W) - 1 + tap % 3
    lands = inside & (d >= 0) & (d < OD) & (h >= 0) & (h < OH) & (w >= 0) & (w < OW)
    out = y_ptr + (group * OG + o[:, None]) * OD * OH * OW + ((d * OH + h) * OW + w)[None, :]
    tl.atomic_add(out, acc, mask=(o < OG)[:, None] & lands[None, :], sem="relaxed")


def run(x, weight):
    N, C, D, H, W = x.shape
    OG = weight.shape[1]
    y = torch.zeros((N, 4 * OG, 2 * D - 1, 2 * H - 1, 2 * W - 1), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(D * H * W, 256), N * 4, 27)
    scatter[grid](x, weight, y, C // 4, D, H, W, OG, BO=triton.next_power_of_2(OG), BP=256, num_warps=4)
    return y
