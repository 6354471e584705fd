"""Two-dimensional grid of row pieces, everything in base two: x / ln 2 in, log2(1 + 2^-|u|) out."""

import torch
import triton
import triton.language as tl


@triton.jit
def softplus_pieces(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(1).to(tl.int64) * cols + c
    u = tl.load(x_ptr + at, mask=c < cols, other=0.0) * 1.4426950408889634
    v = tl.maximum(u, 0.0) + tl.log2(1.0 + tl.exp2(-tl.abs(u)))
    tl.store(y_ptr + at, v * 0.6931471805599453, mask=c < cols)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    softplus_pieces[(triton.cdiv(cols, 2048), rows)](x, y, cols, BLOCK=2048, num_warps=8)
    return y
