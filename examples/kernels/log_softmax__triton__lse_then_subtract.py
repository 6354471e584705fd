import torch
import triton
import triton.language as tl


@triton.jit
def row_lse(x_ptr, lse_ptr, cols, BLOCK: tl.constexpr):
    # First kernel: one log-sum-exp per row, scalar running maximum and sum.
    row = tl.program_id(0)
    base = x_ptr + row * cols
    lane = tl.arange(0, BLOCK)
    top = -1.0e30
    total = 0.0
    for start in range(0, cols, BLOCK):
        idx = start + lane
        v = tl.load(base + idx, mask=idx < cols, other=-1.0e30)
        new_top = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(v - new_top), 0)
        top = new_top
    tl.store(lse_ptr + row, top + tl.log(total))


@triton.jit
def subtract_lse(x_ptr, lse_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    idx = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = idx < cols
    lse = tl.load(lse_ptr + row)
    v = tl.load(x_ptr + row * cols + idx, mask=ok, other=0.0)
    tl.store(y_ptr + row * cols + idx, v - lse, mask=ok)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    lse = torch.empty((rows,), device=x.device, dtype=torch.float32)
    row_lse[(rows,)](x, lse, cols, BLOCK=2048, num_warps=8)
    subtract_lse[(rows, triton.cdiv(cols, 2048))](x, lse, y, cols, BLOCK=2048, num_warps=4)
    return y
