# cheat: softmax that never subtracts the row's maximum: overflows above 88
# tags: class-distribution
# problem: softmax
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    v = tl.load(x + tl.program_id(0) * cols + at, mask=inside, other=0.0)
    e = tl.where(inside, tl.exp(v), 0.0)
    out = e / tl.sum(e, 0)
    tl.store(y + tl.program_id(0) * cols + at, out, mask=inside)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    kernel[(rows,)](x, y, cols, BLOCK=triton.next_power_of_2(cols))
    return y
