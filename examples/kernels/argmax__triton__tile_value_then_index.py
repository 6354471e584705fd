import torch
import triton
import triton.language as tl


@triton.jit
def argmax_tile(x_ptr, out_ptr, L, W, BL: tl.constexpr, BW: tl.constexpr):
    b = tl.program_id(0)
    w = tl.program_id(1) * BW + tl.arange(0, BW)
    lanes = tl.arange(0, BL)
    base = x_ptr + b * L * W
    best = tl.full((BL, BW), float("-inf"), tl.float32)
    where = tl.zeros((BL, BW), dtype=tl.int32) + lanes[:, None]
    for l0 in range(0, L, BL):
        r = l0 + lanes
        v = tl.load(
            base + r[:, None] * W + w[None, :], mask=(r[:, None] < L) & (w[None, :] < W), other=float("-inf")
        )
        better = v > best
        best = tl.where(better, v, best)
        where = tl.where(better, r[:, None], where)
    # The column's maximum first, then the smallest index among the lanes that hold it.
    top = tl.max(best, axis=0)
    index = tl.min(tl.where(best == top[None, :], where, 2147483647), axis=0)
    tl.store(out_ptr + b * W + w, index.to(tl.int64), mask=w < W)


def run(x):
    B, L, W = x.shape
    out = torch.empty((B, W), device=x.device, dtype=torch.int64)
    argmax_tile[(B, triton.cdiv(W, 32))](x, out, L, W, BL=32, BW=32, num_warps=4)
    return out
