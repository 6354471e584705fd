# honest: row lengths in a scratch buffer between two launches
# problem: l2_norm
import torch
import triton
import triton.language as tl


@triton.jit
def lengths(x, scratch, cols, block: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([block], dtype=tl.float32)
    for start in range(0, cols, block):
        at = start + tl.arange(0, block)
        v = tl.load(x + row * cols + at, mask=at < cols, other=0.0)
        total += v * v
    tl.store(scratch + row, tl.sqrt(tl.sum(total, 0)))


@triton.jit
def divide(x, scratch, y, cols, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    v = tl.load(x + row * cols + at, mask=at < cols)
    tl.store(y + row * cols + at, v / tl.load(scratch + row), mask=at < cols)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    scratch = torch.empty(rows, device=x.device, dtype=torch.float32)
    lengths[(rows,)](x, scratch, cols, block=1024)
    divide[(rows, triton.cdiv(cols, 1024))](x, scratch, y, cols, block=1024)
    return y
