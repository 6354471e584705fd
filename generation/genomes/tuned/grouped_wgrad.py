# Gradients of the experts' matrices: for each expert, the product of its rows of dy and x.
# family grouped_wgrad_tuned for grouped_wgrad
# pick block_m = 32, 64, 128, 256
# pick block_n = 32, 64, 128, 256
# pick block_k = 16, 32, 64
# pick group = 1, 4, 16
# pick warps = 4, 8
# pick stages = 2, 3, 4, 5
# refuse block_m * block_n > 8192 * warps: more than 256 sums per thread

import torch
import triton
import triton.language as tl


<%% include "tuned/parts.py#order" %%>
@triton.jit
def gradient(
    dy_ptr, x_ptr, offset_ptr, dw_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    row, column = place(tl.program_id(0), M, N, BM, BN, GROUP)
    expert = tl.program_id(1)
    end = tl.load(offset_ptr + expert)
    start = tl.load(offset_ptr + expert - 1, mask=expert > 0, other=0)
    rm = row * BM + tl.arange(0, BM)
    rn = column * BN + tl.arange(0, BN)
    am, bn = rm % M, rn % N
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(start, end, BK):
        rk = k + tl.arange(0, BK)
        known = (rk < end)[:, None]
        dy = tl.load(dy_ptr + rk[:, None] * M + am[None, :], mask=known, other=0.0)
        x = tl.load(x_ptr + rk[:, None] * N + bn[None, :], mask=known, other=0.0)
        acc = tl.dot(tl.trans(dy), x, acc)
    at = expert.to(tl.int64) * M * N + rm[:, None] * N + rn[None, :]
    tl.store(dw_ptr + at, acc.to(tl.bfloat16), mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, dy, offsets):
    M, N, experts = dy.shape[1], x.shape[1], offsets.shape[0]
    dw = torch.empty((experts, M, N), dtype=x.dtype, device=x.device)
    gradient[(triton.cdiv(M, ${block_m}) * triton.cdiv(N, ${block_n}), experts)](
        dy, x, offsets, dw, M, N, BM=${block_m}, BN=${block_n}, BK=${block_k}, GROUP=${group},
        num_warps=${warps}, num_stages=${stages},
    )
    return dw
