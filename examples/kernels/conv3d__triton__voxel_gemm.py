"""Implicit matrix product: 27 taps by channels deep, 64 filters tall, voxels of all volumes wide."""

import torch
import triton
import triton.language as tl


@triton.jit
def voxel_gemm(
    x_ptr, w_ptr, y_ptr, C, D, H, W, OC, OD, OH, OW, voxels, BO: tl.constexpr, BK: tl.constexpr, BP: tl.constexpr
):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    volume = OD * OH * OW
    n = p // volume
    d = (p // (OH * OW)) % OD
    h = (p // OW) % OH
    corner = n * C * D * H * W + (d * H + h) * W + p % OW
    depth = C * 27
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, depth, BK):
        r = start + tl.arange(0, BK)
        shift = (((r // 27) * D + (r // 9) % 3) * H + (r // 3) % 3) * W + r % 3
        wt = tl.load(w_ptr + o[:, None] * depth + r[None, :], mask=(o < OC)[:, None] & (r < depth)[None, :], other=0.0)
        xs = tl.load(
            x_ptr + corner[None, :] + shift[:, None], mask=(r < depth)[:, None] & (p < voxels)[None, :], other=0.0
        )
        acc = tl.dot(wt, xs, acc, input_precision="ieee")
    out = y_ptr + (n.to(tl.int64) * OC * volume + p % volume)[None, :] + o[:, None] * volume
    tl.store(out, acc, mask=(o < OC)[:, None] & (p < voxels)[None, :])


def run(x, weight):
    N, C, D, H, W = x.shape
    OC = weight.shape[0]
    OD, OH, OW = D - 2, H - 2, W - 2
    y = torch.empty((N, OC, OD, OH, OW), device=x.device, dtype=torch.float32)
    voxels = N * OD * OH * OW
    grid = (triton.cdiv(voxels, 128), triton.cdiv(OC, 64))
    voxel_gemm[grid](x, weight, y, C, D, H, W, OC, OD, OH, OW, voxels, BO=64, BK=16, BP=128, num_warps=8, num_stages=2)
    return y
