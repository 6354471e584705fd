# Backward pass of RMSNorm: a program walks over rows with the gradient of the weight in registers, sums are joined after.
# family rms_backward_tuned for rmsnorm_backward
# pick programs = 66, 132, 264, 528, 1056
# pick rows = 1, 2, 4
# pick warps = 2, 4, 8, 16, 32
# pick stages = 1, 2, 3
# pick columns = 32, 64, 128
# refuse rows > warps: too many numbers per thread

import torch
import triton
import triton.language as tl


@triton.jit
def backward(
    x_ptr, weight_ptr, rstd_ptr, dy_ptr, dresidual_ptr, dx_ptr, sums_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):
    rn = tl.arange(0, BLOCK)[None, :]
    w = tl.load(weight_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)
    dw = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for first in tl.range(tl.program_id(0) * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rm = first + tl.arange(0, ROWS)
        at = rm[:, None].to(tl.int64) * N + rn
        known = (rm < M)[:, None] & (rn < N)
        rstd = tl.load(rstd_ptr + rm, mask=rm < M, other=0.0)[:, None]
        unit = tl.load(x_ptr + at, mask=known, other=0.0).to(tl.float32) * rstd
        dy = tl.load(dy_ptr + at, mask=known, other=0.0).to(tl.float32)
        scaled = dy * w
        mean = tl.sum(scaled * unit, 1)[:, None] / N
        more = tl.load(dresidual_ptr + at, mask=known, other=0.0).to(tl.float32)
        tl.store(dx_ptr + at, (rstd * (scaled - unit * mean) + more).to(tl.bfloat16), mask=known)
        dw += dy * unit
    column = tl.arange(0, BLOCK)
    tl.store(sums_ptr + tl.program_id(0) * N + column, tl.sum(dw, 0), mask=column < N)


@triton.jit
def total_kernel(sums_ptr, out_ptr, COUNT, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rn = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    acc = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in range(0, COUNT, ROWS):
        rm = first + tl.arange(0, ROWS)
        acc += tl.load(
            sums_ptr + rm[:, None] * N + rn[None, :], mask=(rm < COUNT)[:, None] & (rn < N)[None, :], other=0.0
        )
    tl.store(out_ptr + rn, tl.sum(acc, 0), mask=rn < N)


def run(x, weight, rstd, dy, dresidual):
    M, N = x.shape
    dx = torch.empty_like(x)
    dweight = torch.empty((N,), dtype=torch.float32, device=x.device)
    programs = min(${programs}, triton.cdiv(M, ${rows}))
    sums = torch.empty((programs, N), dtype=torch.float32, device=x.device)
    backward[(programs,)](
        x, weight, rstd, dy, dresidual, dx, sums, M, N,
        ROWS=${rows}, BLOCK=triton.next_power_of_2(N), STAGES=${stages}, num_warps=${warps},
    )
    total_kernel[(triton.cdiv(N, ${columns}),)](sums, dweight, programs, N, ROWS=32, COLUMNS=${columns}, num_warps=4)
    return dx, dweight
