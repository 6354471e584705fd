"""Short runs are sorted first; each number then finds its rank by binary search in the other runs of its row."""

import torch
import triton
import triton.language as tl


@triton.jit
def sort_runs(x_ptr, runs_ptr, count, RUN: tl.constexpr, BR: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    at = r.to(tl.int64)[:, None] * RUN + tl.arange(0, RUN)[None, :]
    ok = (r < count)[:, None] & (tl.arange(0, RUN) < RUN)[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=0.0)
    tl.store(runs_ptr + at, tl.sort(x, dim=1), mask=ok)


@triton.jit
def merge(runs_ptr, y_ptr, N, RUN: tl.constexpr, LOG: tl.constexpr, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * N
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = i < N
    mine = tl.load(runs_ptr + base + i, mask=live, other=0.0)
    own = i // RUN
    rank = i % RUN
    for run_number in range(0, N // RUN):
        first = base + run_number * RUN
        # Of equal numbers those in earlier runs come first.
        ties = run_number < own
        below = tl.zeros((BLOCK,), dtype=tl.int32)
        for level in tl.static_range(LOG + 1):
            step = RUN >> level
            inside = below + step <= RUN
            probe = tl.load(runs_ptr + first + tl.minimum(below + step, RUN) - 1)
            go = inside & ((probe < mine) | (ties & (probe == mine)))
            below = tl.where(go, below + step, below)
        rank += tl.where(run_number == own, 0, below)
    tl.store(y_ptr + base + rank, mine, mask=live)


def run(x):
    rows, n = x.shape
    y = torch.empty_like(x)
    runs = torch.empty_like(x)
    length = min(64, max(2, n // 2))
    count = rows * n // length
    sort_runs[(triton.cdiv(count, 16),)](x, runs, count, RUN=length, BR=16, num_warps=4)
    block = min(256, n)
    merge[(rows, triton.cdiv(n, block))](runs, y, n, RUN=length, LOG=length.bit_length() - 1, BLOCK=block, num_warps=4)
    return y
