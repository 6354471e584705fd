"""Tiles of source rows, every number added to its row by a relaxed atomic."""

import torch
import triton
import triton.language as tl


@triton.jit
def add(source_ptr, index_ptr, sums_ptr, items, D, BI: tl.constexpr, BD: tl.constexpr):
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    row = tl.load(index_ptr + i, mask=i < items, other=0)
    ok = (i < items)[:, None] & (d < D)[None, :]
    v = tl.load(source_ptr + i.to(tl.int64)[:, None] * D + d[None, :], mask=ok, other=0.0)
    tl.atomic_add(sums_ptr + row[:, None] * D + d[None, :], v, mask=ok, sem="relaxed")


def run(source, index, rows):
    items, dim = source.shape
    sums = torch.zeros((rows, dim), device=source.device, dtype=torch.float32)
    bd = min(128, triton.next_power_of_2(dim))
    add[(triton.cdiv(items, 16), triton.cdiv(dim, bd))](source, index, sums, items, dim, BI=16, BD=bd, num_warps=4)
    return sums
