import torch
import triton
import triton.language as tl


@triton.jit
def row_huber(p_ptr, t_ptr, row_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    total = 0.0
    for start in range(0, cols, BLOCK):
        c = start + lane
        d = tl.load(p_ptr + row * cols + c, mask=c < cols, other=0.0)
        d -= tl.load(t_ptr + row * cols + c, mask=c < cols, other=0.0)
        outside = tl.maximum(tl.abs(d) - 1.0, 0.0)
        # (d^2 - outside^2) / 2 equals both branches of the definition
        total += tl.sum(d * d - outside * outside, 0)
    tl.store(row_ptr + row, total * 0.5 / cols)


@triton.jit
def mean_rows(row_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, rows, BLOCK):
        i = start + lane
        acc += tl.load(row_ptr + i, mask=i < rows, other=0.0)
    tl.store(out_ptr, tl.sum(acc, 0) / rows)


def run(predictions, targets):
    rows, cols = predictions.shape
    row_means = torch.empty((rows,), device=predictions.device, dtype=torch.float32)
    out = torch.empty((), device=predictions.device, dtype=torch.float32)
    row_huber[(rows,)](predictions, targets, row_means, cols, BLOCK=1024, num_warps=4)
    mean_rows[(1,)](row_means, out, rows, BLOCK=1024, num_warps=4)
    return out
