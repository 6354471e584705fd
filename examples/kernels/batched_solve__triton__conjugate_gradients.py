"""No elimination: conjugate gradients on a tile of systems, which well-conditioned matrices bring home in few steps."""

import torch
import triton
import triton.language as tl


@triton.jit
def solve(a_ptr, b_ptr, x_ptr, systems, N, STEPS: tl.constexpr, BS: tl.constexpr, BN: tl.constexpr):
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    i = tl.arange(0, BN)
    inside = (i < N)[None, :, None] & (i < N)[None, None, :]
    at = s.to(tl.int64)[:, None, None] * N * N + i[None, :, None] * N + i[None, None, :]
    a = tl.load(a_ptr + at, mask=(s < systems)[:, None, None] & inside, other=0.0)
    ok = (s < systems)[:, None] & (i < N)[None, :]
    where = s.to(tl.int64)[:, None] * N + i[None, :]
    residual = tl.load(b_ptr + where, mask=ok, other=0.0)
    x = tl.zeros((BS, BN), dtype=tl.float32)
    direction = residual
    size = tl.sum(residual * residual, axis=1)
    for _step in range(0, STEPS):
        image = tl.sum(a * direction[:, None, :], axis=2)
        curve = tl.sum(direction * image, axis=1)
        # Once solved exactly there is nothing to divide by.
        alpha = tl.where(curve > 0.0, size / tl.where(curve > 0.0, curve, 1.0), 0.0)
        x += alpha[:, None] * direction
        residual -= alpha[:, None] * image
        new_size = tl.sum(residual * residual, axis=1)
        beta = tl.where(size > 0.0, new_size / tl.where(size > 0.0, size, 1.0), 0.0)
        direction = residual + beta[:, None] * direction
        size = new_size
    tl.store(x_ptr + where, x, mask=ok)


def run(a, b):
    systems, n = b.shape
    x = torch.empty_like(b)
    wide = triton.next_power_of_2(n)
    tile = max(1, 2048 // (wide * wide))
    solve[(triton.cdiv(systems, tile),)](a, b, x, systems, n, STEPS=20, BS=tile, BN=wide, num_warps=4)
    return x
