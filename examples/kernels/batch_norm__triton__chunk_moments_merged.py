"""Chunks leave their own mean and squared deviation, one program per channel merges them, a third kernel applies."""

import torch
import triton
import triton.language as tl


@triton.jit
def chunk_moments(x_ptr, part_ptr, area, chunks, BLOCK: tl.constexpr):
    plane = tl.program_id(1)
    chunk = tl.program_id(0)
    i = chunk * BLOCK + tl.arange(0, BLOCK)
    ok = i < area
    x = tl.load(x_ptr + plane.to(tl.int64) * area + i, mask=ok, other=0.0)
    count = tl.minimum(area - chunk * BLOCK, BLOCK)
    mean = tl.sum(x, axis=0) / count
    d = tl.where(ok, x - mean, 0.0)
    out = part_ptr + (plane * chunks + chunk) * 2
    tl.store(out, mean)
    tl.store(out + 1, tl.sum(d * d, axis=0))


@triton.jit
def merge(part_ptr, weight_ptr, bias_ptr, affine_ptr, batch, channels, area, chunks, SIZE: tl.constexpr, E: tl.constexpr):
    c = tl.program_id(0)
    total = batch * chunks
    mean_sum = tl.zeros((E,), dtype=tl.float32)
    for start in range(0, total, E):
        e = start + tl.arange(0, E)
        n = tl.minimum(area - (e % chunks) * SIZE, SIZE).to(tl.float32)
        at = (((e // chunks) * channels + c) * chunks + e % chunks) * 2
        mean_sum += tl.load(part_ptr + at, mask=e < total, other=0.0) * n
    count = batch.to(tl.float32) * area
    mean = tl.sum(mean_sum, axis=0) / count
    squares = tl.zeros((E,), dtype=tl.float32)
    for start in range(0, total, E):
        e = start + tl.arange(0, E)
        n = tl.minimum(area - (e % chunks) * SIZE, SIZE).to(tl.float32)
        at = (((e // chunks) * channels + c) * chunks + e % chunks) * 2
        d = tl.load(part_ptr + at, mask=e < total, other=0.0) - mean
        m2 = tl.load(part_ptr + at + 1, mask=e < total, other=0.0)
        squares += tl.where(e < total, m2 + n * d * d, 0.0)
    scale = tl.load(weight_ptr + c) / tl.sqrt(tl.sum(squares, axis=0) / count + 1e-5)
    tl.store(affine_ptr + 2 * c, scale)
    tl.store(affine_ptr + 2 * c + 1, tl.load(bias_ptr + c) - mean * scale)


@triton.jit
def apply(x_ptr, affine_ptr, y_ptr, channels, area, BLOCK: tl.constexpr):
    plane = tl.program_id(1)
    c = plane % channels
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = plane.to(tl.int64) * area + i
    x = tl.load(x_ptr + at, mask=i < area, other=0.0)
    y = x * tl.load(affine_ptr + 2 * c) + tl.load(affine_ptr + 2 * c + 1)
    tl.store(y_ptr + at, y, mask=i < area)


def run(x, weight, bias):
    batch, channels, height, width = x.shape
    area = height * width
    chunks = triton.cdiv(area, 4096)
    grid = (chunks, batch * channels)
    part = torch.empty((batch * channels, chunks, 2), device=x.device, dtype=torch.float32)
    affine = torch.empty((channels, 2), device=x.device, dtype=torch.float32)
    y = torch.empty_like(x)
    chunk_moments[grid](x, part, area, chunks, BLOCK=4096, num_warps=8)
    merge[(channels,)](part, weight, bias, affine, batch, channels, area, chunks, SIZE=4096, E=256, num_warps=4)
    apply[grid](x, affine, y, channels, area, BLOCK=4096, num_warps=8)
    return y
