"""Output side: all 27 taps are tried at every voxel and masked where the stride leaves no input behind them."""

import torch
import triton
import triton.language as tl


@triton.jit
def gather(x_ptr, w_ptr, y_ptr, CG, D, H, W, OG, OD, OH, OW, BO: tl.constexpr, BP: tl.constexpr):
    group = tl.program_id(1)  # image and channel group
    g = group % 4
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.arange(0, BO)
    volume = OD * OH * OW
    d = p // (OH * OW)
    h = (p // OW) % OH
    w = p % OW
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for tap in range(0, 27):
        z = d + 1 - tap // 9
        r = h + 1 - (tap // 3) % 3
        q = w + 1 - tap % 3
        fits = ((z | r | q) >= 0) & (((z | r | q) & 1) == 0)
        fits = fits & (z // 2 < D) & (r // 2 < H) & (q // 2 < W) & (p < volume)
        place = ((z // 2) * H + r // 2) * W + q // 2
        for c in range(0, CG):
            xs = tl.load(x_ptr + (group.to(tl.int64) * CG + c) * D * H * W + place, mask=fits, other=0.0)
            wt = tl.load(w_ptr + ((g * CG + c) * OG + o) * 27 + tap, mask=o < OG, other=0.0)
            acc += wt[:, None] * xs[None, :]
    out = y_ptr + (group.to(tl.int64) * OG + o[:, None]) * volume + p[None, :]
    tl.store(out, acc, mask=(o < OG)[:, None] & (p < volume)[None, :])


def run(x, weight):
    N, C, D, H, W = x.shape
    OG = weight.shape[1]
    OD, OH, OW = 2 * D - 1, 2 * H - 1, 2 * W - 1
    y = torch.empty((N, 4 * OG, OD, OH, OW), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(OD * OH * OW, 256), N * 4)
    gather[grid](x, weight, y, C // 4, D, H, W, OG, OD, OH, OW, BO=triton.next_power_of_2(OG), BP=256, num_warps=4)
    return y
