"""Blocks of bodies times stretches of sources over the grid; stretches add their share atomically."""

import torch
import triton
import triton.language as tl


@triton.jit
def pull(pos_ptr, mass_ptr, out_ptr, N, softening, SPAN: tl.constexpr, BI: tl.constexpr, BJ: tl.constexpr):
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    x = tl.load(pos_ptr + i * 3, mask=i < N, other=0.0)[None, :]
    y = tl.load(pos_ptr + i * 3 + 1, mask=i < N, other=0.0)[None, :]
    z = tl.load(pos_ptr + i * 3 + 2, mask=i < N, other=0.0)[None, :]
    ax = tl.zeros((BI,), dtype=tl.float32)
    ay = tl.zeros((BI,), dtype=tl.float32)
    az = tl.zeros((BI,), dtype=tl.float32)
    for off in range(0, SPAN, BJ):
        j = tl.program_id(1) * SPAN + off + tl.arange(0, BJ)
        dx = tl.load(pos_ptr + j * 3, mask=j < N, other=0.0)[:, None] - x
        dy = tl.load(pos_ptr + j * 3 + 1, mask=j < N, other=0.0)[:, None] - y
        dz = tl.load(pos_ptr + j * 3 + 2, mask=j < N, other=0.0)[:, None] - z
        near = tl.rsqrt(dx * dx + dy * dy + dz * dz + softening)
        weight = tl.load(mass_ptr + j, mask=j < N, other=0.0)[:, None] * near * near * near
        ax += tl.sum(weight * dx, axis=0)
        ay += tl.sum(weight * dy, axis=0)
        az += tl.sum(weight * dz, axis=0)
    tl.atomic_add(out_ptr + i * 3, ax, mask=i < N, sem="relaxed")
    tl.atomic_add(out_ptr + i * 3 + 1, ay, mask=i < N, sem="relaxed")
    tl.atomic_add(out_ptr + i * 3 + 2, az, mask=i < N, sem="relaxed")


def run(positions, masses, softening):
    n = masses.shape[0]
    out = torch.zeros_like(positions)
    pull[(triton.cdiv(n, 128), triton.cdiv(n, 512))](
        positions, masses, out, n, softening, SPAN=512, BI=128, BJ=16, num_warps=4
    )
    return out
