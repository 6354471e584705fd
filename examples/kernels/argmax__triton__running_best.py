import torch
import triton
import triton.language as tl


@triton.jit
def argmax_strip(x_ptr, out_ptr, L, W, BW: tl.constexpr):
    b = tl.program_id(1)
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    ok = w < W
    base = x_ptr + b * L * W + w
    best = tl.load(base, mask=ok, other=0.0)
    where = tl.zeros((BW,), dtype=tl.int32)
    for l in range(1, L):
        v = tl.load(base + l * W, mask=ok, other=0.0)
        better = v > best  # strictly: the first of equals stays
        best = tl.where(better, v, best)
        where = tl.where(better, l, where)
    tl.store(out_ptr + b * W + w, where.to(tl.int64), mask=ok)


def run(x):
    B, L, W = x.shape
    out = torch.empty((B, W), device=x.device, dtype=torch.int64)
    argmax_strip[(triton.cdiv(W, 128), B)](x, out, L, W, BW=128, num_warps=4)
    return out
