import torch
import triton
import triton.language as tl


@triton.jit
def tile_sums(x_ptr, s_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.store(s_ptr + tl.program_id(0), tl.sum(v, 0))


@triton.jit
def scan_sums(s_ptr, o_ptr, tiles, BLOCK: tl.constexpr):
    # One program turns tile sums into exclusive offsets.
    lane = tl.arange(0, BLOCK)
    carry = tl.zeros((1,), dtype=tl.int32)
    for start in range(0, tiles, BLOCK):
        i = start + lane
        v = tl.load(s_ptr + i, mask=i < tiles, other=0)
        tl.store(o_ptr + i, tl.cumsum(v, 0) - v + carry, mask=i < tiles)
        carry += tl.sum(v, 0)


@triton.jit
def apply_offsets(x_ptr, o_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i, mask=i < n, other=0)
    base = tl.load(o_ptr + tl.program_id(0))
    tl.store(y_ptr + i, tl.cumsum(v, 0) + base, mask=i < n)


def run(x):
    n = x.numel()
    BLOCK = 4096
    tiles = triton.cdiv(n, BLOCK)
    sums = torch.empty((tiles,), device=x.device, dtype=torch.int32)
    offsets = torch.empty((tiles,), device=x.device, dtype=torch.int32)
    y = torch.empty_like(x)
    tile_sums[(tiles,)](x, sums, n, BLOCK=BLOCK, num_warps=8)
    scan_sums[(1,)](sums, offsets, tiles, BLOCK=1024, num_warps=4)
    apply_offsets[(tiles,)](x, offsets, y, n, BLOCK=BLOCK, num_warps=8)
    return y
