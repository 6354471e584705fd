"""One small program a row walks along its entries."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_product(starts_ptr, col_ptr, val_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin = tl.load(starts_ptr + row)
    end = tl.load(starts_ptr + row + 1)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(begin, end, BLOCK):
        i = at + tl.arange(0, BLOCK)
        ok = i < end
        c = tl.load(col_ptr + i, mask=ok, other=0)
        acc += tl.load(val_ptr + i, mask=ok, other=0.0) * tl.load(x_ptr + c, mask=ok, other=0.0)
    tl.store(y_ptr + row, tl.sum(acc, axis=0))


def run(starts, columns, values, x):
    rows = starts.shape[0] - 1
    y = torch.empty((rows,), device=x.device, dtype=torch.float32)
    row_product[(rows,)](starts, columns, values, x, y, BLOCK=64, num_warps=1)
    return y
