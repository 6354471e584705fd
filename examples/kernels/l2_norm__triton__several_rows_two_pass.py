import torch
import triton
import triton.language as tl


@triton.jit
def l2_rows(x_ptr, y_ptr, rows, cols, R: tl.constexpr, BLOCK: tl.constexpr):
    # R rows per program; the second read of each tile usually comes from cache.
    r = tl.program_id(0) * R + tl.arange(0, R)
    lane = tl.arange(0, BLOCK)
    row_ok = r[:, None] < rows
    base = r[:, None] * cols
    acc = tl.zeros((R, BLOCK), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + lane
        v = tl.load(x_ptr + base + c[None, :], mask=row_ok & (c[None, :] < cols), other=0.0)
        acc += v * v
    squares = tl.sum(acc, axis=1)
    # rows past the end would divide by zero; give them one
    squares = tl.where(r < rows, squares, 1.0)
    inv = 1.0 / tl.sqrt(squares)
    for start in range(0, cols, BLOCK):
        c = start + lane
        ok = row_ok & (c[None, :] < cols)
        v = tl.load(x_ptr + base + c[None, :], mask=ok, other=0.0)
        tl.store(y_ptr + base + c[None, :], v * inv[:, None], mask=ok)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    l2_rows[(triton.cdiv(rows, 2),)](x, y, rows, cols, R=2, BLOCK=1024, num_warps=8)
    return y
