"""Pass one writes a partial sum for each row and slice; pass two adds the slices in a fixed order."""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_dots(a_ptr, x_ptr, part_ptr, K, per_slice, slices, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    piece = tl.program_id(1)
    begin = piece * per_slice
    end = min(begin + per_slice, K)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(begin, end, BLOCK):
        idx = at + tl.arange(0, BLOCK)
        ok = idx < end
        acc += tl.load(a_ptr + row * K + idx, mask=ok, other=0.0) * tl.load(x_ptr + idx, mask=ok, other=0.0)
    tl.store(part_ptr + row * slices + piece, tl.sum(acc, axis=0))


@triton.jit
def add_slices(part_ptr, y_ptr, slices, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    idx = tl.arange(0, WIDTH)
    part = tl.load(part_ptr + row * slices + idx, mask=idx < slices, other=0.0)
    tl.store(y_ptr + row, tl.sum(part, axis=0))


def run(a, x):
    m, k = a.shape
    slices = max(1, min(16, k // 2048))
    per_slice = triton.cdiv(k, slices)
    part = torch.empty((m, slices), device=a.device, dtype=torch.float32)
    y = torch.empty((m, 1), device=a.device, dtype=torch.float32)
    partial_dots[(m, slices)](a, x, part, k, per_slice, slices, BLOCK=2048, num_warps=8)
    add_slices[(m,)](part, y, slices, WIDTH=triton.next_power_of_2(slices), num_warps=1)
    return y
