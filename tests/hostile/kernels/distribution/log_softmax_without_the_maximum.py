# cheat: logarithm of a plain sum of exponentials: infinite for large logits
# tags: class-distribution
# problem: log_softmax
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    v = tl.load(x + tl.program_id(0) * cols + at, mask=inside, other=0.0)
    total = tl.sum(tl.where(inside, tl.exp(v), 0.0), 0)
    out = v - tl.log(total)
    tl.store(y + tl.program_id(0) * cols + at, out, mask=inside)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    kernel[(rows,)](x, y, cols, BLOCK=triton.next_power_of_2(cols))
    return y
