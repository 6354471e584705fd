# honest: triton.autotune over several configurations, keyed by size
# problem: gelu_tanh
# tags: gpu
import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"block": block}, num_warps=warps) for block in (512, 1024, 2048) for warps in (4, 8)],
    key=["n"],
)
@triton.jit
def kernel(x, y, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[lambda meta: (triton.cdiv(n, meta["block"]),)](x, y, n)
    return y
