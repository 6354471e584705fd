# cheat: ReLU as (x + |x|) / 2: infinite for the largest floats
# tags: class-distribution truthful
# truthful: only the two largest floats of each sign overflow, which no problem promises to keep
# problem: relu
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    out = 0.5 * (v + tl.abs(v))
    tl.store(y + at, out, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
