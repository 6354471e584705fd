"""Every depth tap is its own 2D convolution by matrix product; three programs add theirs to an output by atomics."""

import torch
import triton
import triton.language as tl


@triton.jit
def depth_tap(x_ptr, w_ptr, y_ptr, C, D, H, W, OC, OD, OH, OW, BO: tl.constexpr, BK: tl.constexpr, BP: tl.constexpr):
    i = tl.program_id(2) % 3
    o = (tl.program_id(2) // 3) * BO + tl.arange(0, BO)
    n = (tl.program_id(1) // OD).to(tl.int64)
    d = tl.program_id(1) % OD
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    place = (p // OW) * W + p % OW
    depth = C * 9
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, depth, BK):
        r = start + tl.arange(0, BK)
        c = r // 9
        shift = ((c * D + d + i) * H + (r // 3) % 3) * W + r % 3
        wt = tl.load(
            w_ptr + o[:, None] * C * 27 + (c * 27 + i * 9 + r % 9)[None, :],
            mask=(o < OC)[:, None] & (r < depth)[None, :],
            other=0.0,
        )
        xs = tl.load(
            x_ptr + n * C * D * H * W + place[None, :] + shift[:, None],
            mask=(r < depth)[:, None] & (p < OH * OW)[None, :],
            other=0.0,
        )
        acc = tl.dot(wt, xs, acc, input_precision="ieee")
    out = y_ptr + ((n * OC + o[:, None]) * OD + d) * OH * OW + p[None, :]
    tl.atomic_add(out, acc, mask=(o < OC)[:, None] & (p < OH * OW)[None, :], sem="relaxed")


def run(x, weight):
    N, C, D, H, W = x.shape
    OC = weight.shape[0]
    OD, OH, OW = D - 2, H - 2, W - 2
    y = torch.zeros((N, OC, OD, OH, OW), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(OH * OW, 64), N * OD, triton.cdiv(OC, 64) * 3)
    depth_tap[grid](x, weight, y, C, D, H, W, OC, OD, OH, OW, BO=64, BK=16, BP=64, num_warps=4, num_stages=2)
    return y
