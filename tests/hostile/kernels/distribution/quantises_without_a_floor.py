# cheat: scale of a group without its floor: a group of noughts divides by nought
# tags: class-distribution gpu
# problem: fp8_quant
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, q, scales, GROUP: tl.constexpr):
    at = tl.program_id(0) * GROUP + tl.arange(0, GROUP)
    v = tl.load(x + at).to(tl.float32)
    scale = tl.max(tl.abs(v), 0) / 448.0
    tl.store(q + at, (v / scale).to(tl.float8e4nv))
    tl.store(scales + tl.program_id(0), scale)


def run(x, group):
    tokens, hidden = x.shape
    q = torch.empty((tokens, hidden), device=x.device, dtype=torch.float8_e4m3fn)
    scales = torch.empty((tokens, hidden // group), device=x.device, dtype=torch.float32)
    kernel[(tokens * hidden // group,)](x, q, scales, GROUP=group)
    return q, scales
