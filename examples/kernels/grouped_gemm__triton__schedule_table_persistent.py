"""One program writes a table of row tiles and their experts; a fixed grid of programs then works through it."""

import torch
import triton
import triton.language as tl


@triton.jit
def write_schedule(off_ptr, table_ptr, total_ptr, groups, BM: tl.constexpr):
    start = 0
    filled = 0
    for g in range(0, groups):
        end = tl.load(off_ptr + g)
        for first in range(start, end, BM):
            tl.store(table_ptr + 3 * filled, g)
            tl.store(table_ptr + 3 * filled + 1, first)
            tl.store(table_ptr + 3 * filled + 2, end)
            filled += 1
        start = end
    tl.store(total_ptr, filled)


@triton.jit
def work_through(x_ptr, w_ptr, table_ptr, total_ptr, y_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across = tl.cdiv(N, BN)
    total = tl.load(total_ptr) * across
    for job in range(tl.program_id(0), total, tl.num_programs(0)):
        entry = table_ptr + 3 * (job // across)
        group = tl.load(entry)
        first = tl.load(entry + 1)
        end = tl.load(entry + 2)
        rm = first + tl.arange(0, BM)
        rn = (job % across) * BN + tl.arange(0, BN)
        weights = w_ptr + group.to(tl.int64) * K * N
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < end)[:, None] & (rk < K)[None, :], other=0.0)
            w = tl.load(weights + rk[:, None] * N + rn[None, :], mask=(rk < K)[:, None] & (rn < N)[None, :], other=0.0)
            acc = tl.dot(x, w, acc)
        out = y_ptr + rm[:, None] * N + rn[None, :]
        tl.store(out, acc.to(y_ptr.dtype.element_ty), mask=(rm < end)[:, None] & (rn < N)[None, :])


def run(x, weight, offsets):
    tokens, k = x.shape
    groups, _, n = weight.shape
    y = torch.empty((tokens, n), device=x.device, dtype=torch.bfloat16)
    rows = tokens // 128 + groups
    table = torch.empty((rows, 3), device=x.device, dtype=torch.int32)
    total = torch.empty((1,), device=x.device, dtype=torch.int32)
    write_schedule[(1,)](offsets, table, total, groups, BM=128, num_warps=1)
    grid = (min(132 * 2, rows * triton.cdiv(n, 128)),)
    work_through[grid](x, weight, table, total, y, n, k, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
    return y
