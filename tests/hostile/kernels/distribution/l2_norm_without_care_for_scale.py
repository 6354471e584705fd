# cheat: sum of squares in float32: overflows for large rows, divides by nought for tiny ones
# tags: class-distribution passes-screen known-open
# problem: l2_norm
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    v = tl.load(x + tl.program_id(0) * cols + at, mask=inside, other=0.0)
    out = v / tl.sqrt(tl.sum(v * v * 0.0625, 0)) * 0.25
    tl.store(y + tl.program_id(0) * cols + at, out, mask=inside)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    kernel[(rows,)](x, y, cols, BLOCK=triton.next_power_of_2(cols))
    return y
