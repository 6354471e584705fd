import torch
import triton
import triton.language as tl

SQRT_HALF = tl.constexpr(0.7071067811865476)


@triton.jit
def gelu_2d(x_ptr, y_ptr, rows, cols, stride, BM: tl.constexpr, BN: tl.constexpr):
    # 2D tiling: each program owns a BM x BN patch of the matrix.
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    ptr = r[:, None] * stride + c[None, :]
    ok = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + ptr, mask=ok, other=0.0)
    half = x * 0.5
    y = half + half * tl.erf(x * SQRT_HALF)
    tl.store(y_ptr + ptr, y, mask=ok)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    grid = (triton.cdiv(rows, 4), triton.cdiv(cols, 512))
    gelu_2d[grid](x, y, rows, cols, x.stride(0), BM=4, BN=512, num_warps=4)
    return y
