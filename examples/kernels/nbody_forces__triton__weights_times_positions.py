"""Weights as a matrix: its product with positions (and ones) gives the sums, from which the body's own place is taken."""

import torch
import triton
import triton.language as tl


@triton.jit
def partial(pos_ptr, mass_ptr, part_ptr, N, softening, SPAN: tl.constexpr, BI: tl.constexpr, BJ: tl.constexpr):
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    piece = tl.program_id(1)
    x = tl.load(pos_ptr + i * 3, mask=i < N, other=0.0)[:, None]
    y = tl.load(pos_ptr + i * 3 + 1, mask=i < N, other=0.0)[:, None]
    z = tl.load(pos_ptr + i * 3 + 2, mask=i < N, other=0.0)[:, None]
    axis = tl.arange(0, 16)
    sums = tl.zeros((BI, 16), dtype=tl.float32)
    for off in range(0, SPAN, BJ):
        j = piece * SPAN + off + tl.arange(0, BJ)
        dx = tl.load(pos_ptr + j * 3, mask=j < N, other=0.0)[None, :] - x
        dy = tl.load(pos_ptr + j * 3 + 1, mask=j < N, other=0.0)[None, :] - y
        dz = tl.load(pos_ptr + j * 3 + 2, mask=j < N, other=0.0)[None, :] - z
        near = tl.rsqrt(dx * dx + dy * dy + dz * dz + softening)
        weight = tl.load(mass_ptr + j, mask=j < N, other=0.0)[None, :] * near * near * near
        # Columns 0 to 2 hold the position, column 3 a one, the rest padding.
        ok = (j < N)[:, None] & (axis < 3)[None, :]
        place = tl.load(pos_ptr + j[:, None] * 3 + axis[None, :], mask=ok, other=0.0)
        place = tl.where((axis == 3)[None, :], 1.0, place)
        sums = tl.dot(weight, place, sums, input_precision="ieee")
    at = (piece * N + i[:, None]) * 4 + axis[None, :]
    tl.store(part_ptr + at, sums, mask=(i < N)[:, None] & (axis < 4)[None, :])


@triton.jit
def finish(pos_ptr, part_ptr, out_ptr, N, pieces, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    body = e // 3
    axis = e % 3
    ok = e < N * 3
    moment = tl.zeros((BLOCK,), dtype=tl.float32)
    weight = tl.zeros((BLOCK,), dtype=tl.float32)
    for piece in range(0, pieces):
        moment += tl.load(part_ptr + (piece * N + body) * 4 + axis, mask=ok, other=0.0)
        weight += tl.load(part_ptr + (piece * N + body) * 4 + 3, mask=ok, other=0.0)
    tl.store(out_ptr + e, moment - weight * tl.load(pos_ptr + e, mask=ok, other=0.0), mask=ok)


def run(positions, masses, softening):
    n = masses.shape[0]
    out = torch.empty_like(positions)
    pieces = triton.cdiv(n, 1024)
    part = torch.empty((pieces, n, 4), device=positions.device, dtype=torch.float32)
    partial[(triton.cdiv(n, 64), pieces)](positions, masses, part, n, softening, SPAN=1024, BI=64, BJ=32, num_warps=4)
    finish[(triton.cdiv(3 * n, 256),)](positions, part, out, n, pieces, BLOCK=256, num_warps=4)
    return out
