# honest: triton.heuristics that choose a block by shape
# problem: gelu_tanh
import torch
import triton
import triton.language as tl


@triton.heuristics(
    {"block": lambda args: 256 if args["n"] < 4096 else 2048, "even": lambda args: args["n"] % 2048 == 0}
)
@triton.jit
def kernel(x, y, n, block: tl.constexpr, even: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + at) if even else tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    g = v / (1.0 + tl.exp(-2.0 * u))
    tl.store(y + at, g, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[lambda meta: (triton.cdiv(n, meta["block"]),)](x, y, n)
    return y
