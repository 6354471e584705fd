"""Eight launches, one for each parity of the output coordinates: with it fixed, only the taps that reach are left."""

import torch
import triton
import triton.language as tl


@triton.jit
def one_parity(
    x_ptr, w_ptr, y_ptr, CG, D, H, W, OG, MD, MH, MW,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, BO: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(1).to(tl.int64)  # image and channel group
    g = tl.program_id(1) % 4
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.arange(0, BO)
    inside = p < MD * MH * MW
    d = p // (MH * MW)
    h = (p // MW) % MH
    w = p % MW
    place = (d * H + h) * W + w
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for c in range(0, CG):
        src = x_ptr + (group * CG + c) * D * H * W + place
        tap = w_ptr + ((g * CG + c) * OG + o) * 27
        # An even coordinate is reached by tap 1 alone, an odd one by tap 0 from the next input and by tap 2.
        for a in tl.static_range(1 + PD):
            for b in tl.static_range(1 + PH):
                for e in tl.static_range(1 + PW):
                    shift = (PD * (1 - a) * H + PH * (1 - b)) * W + PW * (1 - e)
                    k = (1 - PD + 2 * a * PD) * 9 + (1 - PH + 2 * b * PH) * 3 + 1 - PW + 2 * e * PW
                    xs = tl.load(src + shift, mask=inside, other=0.0)
                    wt = tl.load(tap + k, mask=o < OG, other=0.0)
                    acc += wt[:, None] * xs[None, :]
    OH = 2 * H - 1
    OW = 2 * W - 1
    voxel = ((2 * d + PD) * OH + 2 * h + PH) * OW + 2 * w + PW
    out = y_ptr + (group * OG + o[:, None]) * (2 * D - 1) * OH * OW + voxel[None, :]
    tl.store(out, acc, mask=(o < OG)[:, None] & inside[None, :])


def run(x, weight):
    N, C, D, H, W = x.shape
    OG = weight.shape[1]
    y = torch.empty((N, 4 * OG, 2 * D - 1, 2 * H - 1, 2 * W - 1), device=x.device, dtype=torch.float32)
    block = triton.next_power_of_2(OG)
    for parity in range(8):
        pd, ph, pw = parity // 4, parity // 2 % 2, parity % 2
        md, mh, mw = D - pd, H - ph, W - pw
        if md * mh * mw:
            one_parity[(triton.cdiv(md * mh * mw, 256), N * 4)](
                x, weight, y, C // 4, D, H, W, OG, md, mh, mw, PD=pd, PH=ph, PW=pw, BO=block, BP=256, num_warps=4
            )
    return y
