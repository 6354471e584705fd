# Many small positive definite systems: a tile or a lane per row, or a thread per system.
# family small_solve_triton for batched_solve
# shape method = "jordan", "gauss", "cholesky", "gradients"
# shape walk = "once", "stride"
# pick steps = 20, 24, 28, 32
# pick systems = 1, 2, 4, 8
# pick warps = 1, 2, 4, 8
# refuse method != "gradients" and steps != 24: steps belong to the iteration
# refuse systems * 1024 > 64 * 32 * warps: too many values per thread

import torch
import triton
import triton.language as tl


@triton.jit
def solve(a_ptr, b_ptr, x_ptr, first, systems, N: tl.constexpr, SYSTEMS: tl.constexpr):
    system = first + tl.arange(0, SYSTEMS)
    known = system < systems
    row = tl.arange(0, N)
    place = system.to(tl.int64)[:, None, None] * N * N + row[None, :, None] * N + row[None, None, :]
    identity = (row[None, :, None] == row[None, None, :]).to(tl.float32)
    a = tl.load(a_ptr + place, mask=known[:, None, None], other=0.0)
    a = tl.where(known[:, None, None], a, identity)
    b = tl.load(b_ptr + system.to(tl.int64)[:, None] * N + row[None, :], mask=known[:, None], other=0.0)
%% if method == "jordan"
    for k in range(N):
        here = row == k
        pivot_row = tl.sum(tl.where(here[None, :, None], a, 0.0), 1)
        column = tl.sum(tl.where(here[None, None, :], a, 0.0), 2)
        pivot = tl.sum(tl.where(here[None, :], pivot_row, 0.0), 1)
        target = tl.sum(tl.where(here[None, :], b, 0.0), 1) / pivot
        factor = tl.where(here[None, :], 0.0, column)
        a -= factor[:, :, None] * (pivot_row / pivot[:, None])[:, None, :]
        b = tl.where(here[None, :], b, b - factor * target[:, None])
    diagonal = tl.sum(tl.where(identity > 0.0, a, 0.0), 2)
    x = b / diagonal
%% elif method == "gauss"
    for k in range(N):
        here = row == k
        pivot_row = tl.sum(tl.where(here[None, :, None], a, 0.0), 1)
        column = tl.sum(tl.where(here[None, None, :], a, 0.0), 2)
        pivot = tl.sum(tl.where(here[None, :], pivot_row, 0.0), 1)
        target = tl.sum(tl.where(here[None, :], b, 0.0), 1)
        factor = tl.where((row > k)[None, :], column / pivot[:, None], 0.0)
        a -= factor[:, :, None] * pivot_row[:, None, :]
        b -= factor * target[:, None]
    x = b
    for step in range(N):
        k = N - 1 - step
        here = row == k
        pivot_row = tl.sum(tl.where(here[None, :, None], a, 0.0), 1)
        pivot = tl.sum(tl.where(here[None, :], pivot_row, 0.0), 1)
        known_part = tl.sum(tl.where((row > k)[None, :], pivot_row * x, 0.0), 1)
        value = (tl.sum(tl.where(here[None, :], x, 0.0), 1) - known_part) / pivot
        x = tl.where(here[None, :], value[:, None], x)
%% elif method == "cholesky"
    y = b
    for k in range(N):
        here = row == k
        column = tl.sum(tl.where(here[None, None, :], a, 0.0), 2)
        pivot = tl.sum(tl.where(here[None, :], column, 0.0), 1)
        scaled = tl.where((row >= k)[None, :], column * tl.rsqrt(pivot)[:, None], 0.0)
        below = tl.where((row > k)[None, :], scaled, 0.0)
        a = tl.where(here[None, None, :], scaled[:, :, None], a - below[:, :, None] * below[:, None, :])
        value = tl.sum(tl.where(here[None, :], y, 0.0), 1) * tl.rsqrt(pivot)
        y = tl.where(here[None, :], value[:, None], y - below * value[:, None])
    x = y
    for step in range(N):
        k = N - 1 - step
        here = row == k
        column = tl.sum(tl.where(here[None, None, :], a, 0.0), 2)
        pivot = tl.sum(tl.where(here[None, :], column, 0.0), 1)
        rest = tl.sum(tl.where((row > k)[None, :], column * x, 0.0), 1)
        value = (tl.sum(tl.where(here[None, :], x, 0.0), 1) - rest) / pivot
        x = tl.where(here[None, :], value[:, None], x)
%% else
    # Conjugate gradients: the systems are well conditioned, so the error falls by more than half in every step.
    x = tl.zeros((SYSTEMS, N), tl.float32)
    residual = b
    direction = b
    size = tl.sum(residual * residual, 1)
    for step in range(${steps}):
        image = tl.sum(a * direction[:, None, :], 2)
        along = tl.sum(direction * image, 1)
        rate = tl.where(along > 0.0, size / along, 0.0)
        x += rate[:, None] * direction
        residual -= rate[:, None] * image
        smaller = tl.sum(residual * residual, 1)
        direction = residual + tl.where(size > 0.0, smaller / size, 0.0)[:, None] * direction
        size = smaller
%% endif
    tl.store(x_ptr + system.to(tl.int64)[:, None] * N + row[None, :], x, mask=known[:, None])


@triton.jit
def solve_kernel(a_ptr, b_ptr, x_ptr, systems, N: tl.constexpr, SYSTEMS: tl.constexpr):
%% if walk == "once"
    solve(a_ptr, b_ptr, x_ptr, tl.program_id(0) * SYSTEMS, systems, N, SYSTEMS)
%% else
    for first in range(tl.program_id(0) * SYSTEMS, systems, tl.num_programs(0) * SYSTEMS):
        solve(a_ptr, b_ptr, x_ptr, first, systems, N, SYSTEMS)
%% endif


def run(a, b):
    systems, size = b.shape
    x = torch.empty_like(b)
    programs = triton.cdiv(systems, ${systems})
%% if walk == "stride"
    programs = min(programs, 132 * 8)
%% endif
    solve_kernel[(programs,)](a, b, x, systems, N=size, SYSTEMS=${systems}, num_warps=${warps})
    return x
