import torch
import triton
import triton.language as tl


@triton.jit
def slab_sums(x_ptr, part_ptr, L, W, slabs, SLAB: tl.constexpr, BW: tl.constexpr):
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    s = tl.program_id(1)
    b = tl.program_id(2)
    acc = tl.zeros((BW,), tl.float32)
    for r in range(s * SLAB, tl.minimum(L, (s + 1) * SLAB)):
        acc += tl.load(x_ptr + (b * L + r) * W + w, mask=w < W, other=0.0)
    tl.store(part_ptr + (b * slabs + s) * W + w, acc, mask=w < W)


@triton.jit
def combine(part_ptr, y_ptr, L, W, slabs, BW: tl.constexpr):
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    b = tl.program_id(1)
    acc = tl.zeros((BW,), tl.float32)
    for s in range(0, slabs):
        acc += tl.load(part_ptr + (b * slabs + s) * W + w, mask=w < W, other=0.0)
    tl.store(y_ptr + b * W + w, acc / L, mask=w < W)


def run(x):
    B, L, W = x.shape
    slabs = triton.cdiv(L, 128)
    part = torch.empty((B, slabs, W), device=x.device, dtype=torch.float32)
    y = torch.empty((B, W), device=x.device, dtype=torch.float32)
    slab_sums[(triton.cdiv(W, 256), slabs, B)](x, part, L, W, slabs, SLAB=128, BW=256, num_warps=2)
    combine[(triton.cdiv(W, 256), B)](part, y, L, W, slabs, BW=256, num_warps=2)
    return y
