"""Parallel cyclic reduction with a launch a step: every equation sheds its neighbours at twice the distance."""

import torch
import triton
import triton.language as tl


@triton.jit
def step(
    a_ptr,
    b_ptr,
    c_ptr,
    d_ptr,
    a_to,
    b_to,
    c_to,
    d_to,
    total,
    N,
    reach,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = e < total
    i = e % N
    has_before = ok & (i >= reach)
    has_after = ok & (i < N - reach)
    a = tl.load(a_ptr + e, mask=has_before, other=0.0)
    b = tl.load(b_ptr + e, mask=ok, other=1.0)
    c = tl.load(c_ptr + e, mask=has_after, other=0.0)
    d = tl.load(d_ptr + e, mask=ok, other=0.0)
    before_a = tl.load(a_ptr + e - reach, mask=has_before & (i >= 2 * reach), other=0.0)
    before_b = tl.load(b_ptr + e - reach, mask=has_before, other=1.0)
    before_c = tl.load(c_ptr + e - reach, mask=has_before, other=0.0)
    before_d = tl.load(d_ptr + e - reach, mask=has_before, other=0.0)
    after_a = tl.load(a_ptr + e + reach, mask=has_after, other=0.0)
    after_b = tl.load(b_ptr + e + reach, mask=has_after, other=1.0)
    after_c = tl.load(c_ptr + e + reach, mask=has_after & (i < N - 2 * reach), other=0.0)
    after_d = tl.load(d_ptr + e + reach, mask=has_after, other=0.0)
    up = -a / before_b
    down = -c / after_b
    b = b + up * before_c + down * after_a
    d = d + up * before_d + down * after_d
    if LAST:
        tl.store(d_to + e, d / b, mask=ok)
    else:
        tl.store(a_to + e, up * before_a, mask=ok)
        tl.store(b_to + e, b, mask=ok)
        tl.store(c_to + e, down * after_c, mask=ok)
        tl.store(d_to + e, d, mask=ok)


def run(lower, diagonal, upper, rhs):
    n = rhs.shape[1]
    total = rhs.numel()
    steps = max(1, (n - 1).bit_length())
    source = (lower, diagonal, upper, rhs)
    buffers = [tuple(torch.empty_like(rhs) for _ in range(4)) for _ in range(2)]
    for number in range(steps):
        target = buffers[number % 2]
        step[(triton.cdiv(total, 512),)](
            *source, *target, total, n, 1 << number, LAST=number == steps - 1, BLOCK=512, num_warps=4
        )
        source = target
    return source[3]
