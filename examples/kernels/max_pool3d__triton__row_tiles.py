"""A program makes a tile of output rows of one plane: nine row offsets and three column offsets, all in registers."""

import torch
import triton
import triton.language as tl


@triton.jit
def pool_tile(x_ptr, y_ptr, D, H, W, OD, OH, OW, BH: tl.constexpr, BW: tl.constexpr):
    volume = tl.program_id(2).to(tl.int64)
    d = tl.program_id(1)
    strips = tl.cdiv(OW, BW)
    h = (tl.program_id(0) // strips) * BH + tl.arange(0, BH)
    w = (tl.program_id(0) % strips) * BW + tl.arange(0, BW)
    best = tl.full((BH, BW), float("-inf"), dtype=tl.float32)
    for i in tl.static_range(3):
        z = 2 * d - 1 + 3 * i + tl.zeros((BH,), dtype=tl.int32)
        for j in tl.static_range(3):
            r = 2 * h - 1 + 3 * j
            row_ok = (r >= 0) & (r < H) & (z >= 0) & (z < D)
            for k in tl.static_range(3):
                c = 2 * w - 1 + 3 * k
                ok = row_ok[:, None] & ((c >= 0) & (c < W))[None, :]
                at = (z * H + r)[:, None] * W + c[None, :]
                best = tl.maximum(best, tl.load(x_ptr + volume * D * H * W + at, mask=ok, other=float("-inf")))
    out = (d * OH + h[:, None]) * OW + w[None, :]
    tl.store(y_ptr + volume * OD * OH * OW + out, best, mask=(h < OH)[:, None] & (w < OW)[None, :])


def run(x):
    N, C, D, H, W = x.shape
    OD, OH, OW = (D - 5) // 2 + 1, (H - 5) // 2 + 1, (W - 5) // 2 + 1
    y = torch.empty((N, C, OD, OH, OW), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(OH, 16) * triton.cdiv(OW, 32), OD, N * C)
    pool_tile[grid](x, y, D, H, W, OD, OH, OW, BH=16, BW=32, num_warps=4)
    return y
