"""A block of bodies a program, passing over all others in tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def pull(pos_ptr, mass_ptr, out_ptr, N, softening, BI: tl.constexpr, BJ: tl.constexpr):
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    x = tl.load(pos_ptr + i * 3, mask=i < N, other=0.0)[:, None]
    y = tl.load(pos_ptr + i * 3 + 1, mask=i < N, other=0.0)[:, None]
    z = tl.load(pos_ptr + i * 3 + 2, mask=i < N, other=0.0)[:, None]
    ax = tl.zeros((BI, BJ), dtype=tl.float32)
    ay = tl.zeros((BI, BJ), dtype=tl.float32)
    az = tl.zeros((BI, BJ), dtype=tl.float32)
    for start in range(0, N, BJ):
        j = start + tl.arange(0, BJ)
        dx = tl.load(pos_ptr + j * 3, mask=j < N, other=0.0)[None, :] - x
        dy = tl.load(pos_ptr + j * 3 + 1, mask=j < N, other=0.0)[None, :] - y
        dz = tl.load(pos_ptr + j * 3 + 2, mask=j < N, other=0.0)[None, :] - z
        near = tl.rsqrt(dx * dx + dy * dy + dz * dz + softening)
        weight = tl.load(mass_ptr + j, mask=j < N, other=0.0)[None, :] * near * near * near
        ax += weight * dx
        ay += weight * dy
        az += weight * dz
    tl.store(out_ptr + i * 3, tl.sum(ax, axis=1), mask=i < N)
    tl.store(out_ptr + i * 3 + 1, tl.sum(ay, axis=1), mask=i < N)
    tl.store(out_ptr + i * 3 + 2, tl.sum(az, axis=1), mask=i < N)


def run(positions, masses, softening):
    n = masses.shape[0]
    out = torch.empty_like(positions)
    pull[(triton.cdiv(n, 16),)](positions, masses, out, n, softening, BI=16, BJ=64, num_warps=4)
    return out
