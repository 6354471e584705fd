"""Elimination and substitution as associative scans over the row: 2 by 2 matrices, then two linear recurrences."""

import torch
import triton
import triton.language as tl


@triton.jit
def chain(a, b, c, d, e, f, g, h):
    # The later matrix [e f; g h] times the earlier [a b; c d]; only ratios matter, so sizes are kept near one.
    p = e * a + f * c
    q = e * b + f * d
    r = g * a + h * c
    s = g * b + h * d
    scale = 1.0 / (tl.abs(p) + tl.abs(q) + tl.abs(r) + tl.abs(s))
    return p * scale, q * scale, r * scale, s * scale


@triton.jit
def follow(rate_left, drive_left, rate_right, drive_right):
    return rate_left * rate_right, drive_left * rate_right + drive_right


@triton.jit
def solve(lower_ptr, diagonal_ptr, upper_ptr, rhs_ptr, x_ptr, systems, N, BS: tl.constexpr, BN: tl.constexpr):
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    i = tl.arange(0, BN)
    at = s.to(tl.int64)[:, None] * N + i[None, :]
    ok = (s < systems)[:, None] & (i < N)[None, :]
    lower = tl.load(lower_ptr + at, mask=ok & (i > 0)[None, :], other=0.0)
    diagonal = tl.load(diagonal_ptr + at, mask=ok, other=1.0)
    upper = tl.load(upper_ptr + at, mask=ok & (i < N - 1)[None, :], other=0.0)
    rhs = tl.load(rhs_ptr + at, mask=ok, other=0.0)
    # The row before each one gives the ratio that its elimination needs.
    earlier = ok & (i > 0)[None, :]
    low = tl.load(lower_ptr + at - 1, mask=earlier & (i > 1)[None, :], other=0.0)
    dia = tl.load(diagonal_ptr + at - 1, mask=earlier, other=1.0)
    upp = tl.load(upper_ptr + at - 1, mask=earlier, other=0.0)
    zero = low * 0.0
    _p, above, _q, below = tl.associative_scan((zero, upp, -low, dia), 1, chain)
    pivot = diagonal - lower * (above / below)
    rate = -lower / pivot
    _r, forward = tl.associative_scan((rate, rhs / pivot), 1, follow)
    _s, x = tl.associative_scan((-upper / pivot, forward), 1, follow, reverse=True)
    tl.store(x_ptr + at, x, mask=ok)


def run(lower, diagonal, upper, rhs):
    systems, n = rhs.shape
    x = torch.empty_like(rhs)
    solve[(triton.cdiv(systems, 2),)](
        lower, diagonal, upper, rhs, x, systems, n, BS=2, BN=triton.next_power_of_2(n), num_warps=4
    )
    return x
