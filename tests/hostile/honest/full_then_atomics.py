# honest: maxima taken atomically over an output filled with the smallest value
# problem: max_reduce
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, length, width, tile_rows: tl.constexpr, tile_cols: tl.constexpr):
    batch = tl.program_id(0)
    rows = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    cols = tl.program_id(2) * tile_cols + tl.arange(0, tile_cols)
    inside = (rows[:, None] < length) & (cols[None, :] < width)
    v = tl.load(x + (batch * length + rows[:, None]) * width + cols[None, :], mask=inside, other=float("-inf"))
    tl.atomic_max(y + batch * width + cols, tl.max(v, 0), mask=cols < width)


def run(x):
    batch, length, width = x.shape
    y = torch.full((batch, width), float("-inf"), device=x.device, dtype=torch.float32)
    kernel[(batch, triton.cdiv(length, 64), triton.cdiv(width, 64))](x, y, length, width, tile_rows=64, tile_cols=64)
    return y
