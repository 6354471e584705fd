import torch
import triton
import triton.language as tl


@triton.jit
def triplet_row(a_ptr, p_ptr, n_ptr, loss_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    dp = tl.zeros((BLOCK,), tl.float32)
    dn = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, D, BLOCK):
        c = start + lane
        ok = c < D
        a = tl.load(a_ptr + row * D + c, mask=ok, other=0.0)
        p = tl.load(p_ptr + row * D + c, mask=ok, other=0.0)
        n = tl.load(n_ptr + row * D + c, mask=ok, other=0.0)
        u = tl.where(ok, a - p + 1e-6, 0.0)
        v = tl.where(ok, a - n + 1e-6, 0.0)
        dp += u * u
        dn += v * v
    gap = tl.sqrt(tl.sum(dp, 0)) - tl.sqrt(tl.sum(dn, 0)) + 1.0
    tl.store(loss_ptr + row, tl.maximum(gap, 0.0))


@triton.jit
def average(v_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + lane
        acc += tl.load(v_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr, tl.sum(acc, 0) / n)


def run(anchor, positive, negative):
    rows, cols = anchor.shape
    losses = torch.empty((rows,), device=anchor.device, dtype=torch.float32)
    out = torch.empty((), device=anchor.device, dtype=torch.float32)
    triplet_row[(rows,)](anchor, positive, negative, losses, cols, BLOCK=1024, num_warps=8)
    average[(1,)](losses, out, rows, BLOCK=1024, num_warps=4)
    return out
