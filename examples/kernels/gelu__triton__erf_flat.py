import torch
import triton
import triton.language as tl


@triton.jit
def gelu_fwd(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = offs < n
    x = tl.load(x_ptr + offs, mask=m)
    cdf = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + offs, x * cdf, mask=m)


def run(x):
    out = torch.empty_like(x)
    n = x.numel()
    BLOCK = 2048
    gelu_fwd[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK, num_warps=8)
    return out
