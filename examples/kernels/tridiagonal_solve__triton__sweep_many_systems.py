"""The classic double sweep, a lane a system: ratios go to scratch on the way down and come back on the way up."""

import torch
import triton
import triton.language as tl


@triton.jit
def solve(lower_ptr, diagonal_ptr, upper_ptr, rhs_ptr, ratio_ptr, part_ptr, x_ptr, systems, N, BS: tl.constexpr):
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    ok = s < systems
    row = s.to(tl.int64) * N
    ratio = tl.zeros((BS,), dtype=tl.float32)
    part = tl.zeros((BS,), dtype=tl.float32)
    for i in range(0, N):
        low = tl.load(lower_ptr + row + i, mask=ok, other=0.0)
        dia = tl.load(diagonal_ptr + row + i, mask=ok, other=1.0)
        upp = tl.load(upper_ptr + row + i, mask=ok, other=0.0)
        rhs = tl.load(rhs_ptr + row + i, mask=ok, other=0.0)
        # The first lower number takes no part: ratio and part are zero then.
        inverse = 1.0 / (dia - low * ratio)
        part = (rhs - low * part) * inverse
        ratio = upp * inverse
        tl.store(ratio_ptr + i * systems + s, ratio, mask=ok)
        tl.store(part_ptr + i * systems + s, part, mask=ok)
    x = part
    tl.store(x_ptr + row + N - 1, x, mask=ok)
    for back in range(1, N):
        i = N - 1 - back
        ratio = tl.load(ratio_ptr + i * systems + s, mask=ok, other=0.0)
        part = tl.load(part_ptr + i * systems + s, mask=ok, other=0.0)
        x = part - ratio * x
        tl.store(x_ptr + row + i, x, mask=ok)


def run(lower, diagonal, upper, rhs):
    systems, n = rhs.shape
    x = torch.empty_like(rhs)
    ratio = torch.empty((n, systems), device=rhs.device, dtype=torch.float32)
    part = torch.empty((n, systems), device=rhs.device, dtype=torch.float32)
    solve[(triton.cdiv(systems, 32),)](lower, diagonal, upper, rhs, ratio, part, x, systems, n, BS=32, num_warps=1)
    return x
