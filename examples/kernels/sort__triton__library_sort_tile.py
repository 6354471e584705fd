"""A tile of rows through the language's own sort."""

import torch
import triton
import triton.language as tl


@triton.jit
def sort_rows(x_ptr, y_ptr, rows, N: tl.constexpr, BR: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    at = r.to(tl.int64)[:, None] * N + tl.arange(0, N)[None, :]
    ok = (r < rows)[:, None] & (tl.arange(0, N) < N)[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=0.0)
    tl.store(y_ptr + at, tl.sort(x, dim=1), mask=ok)


def run(x):
    rows, n = x.shape
    y = torch.empty_like(x)
    tile = max(1, 1024 // n)
    sort_rows[(triton.cdiv(rows, tile),)](x, y, rows, N=n, BR=tile, num_warps=4)
    return y
