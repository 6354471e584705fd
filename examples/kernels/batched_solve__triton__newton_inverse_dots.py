"""The inverse by Newton's iteration in matrix products, from a scaled identity, and one refinement of the answer."""

import torch
import triton
import triton.language as tl


@triton.jit
def solve(a_ptr, b_ptr, x_ptr, N, STEPS: tl.constexpr, BN: tl.constexpr):
    system = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BN)
    at = i[:, None] * N + i[None, :]
    ok = (i < N)[:, None] & (i < N)[None, :]
    one = (i[:, None] == i[None, :]).to(tl.float32)
    a = tl.load(a_ptr + system * N * N + at, mask=ok, other=0.0)
    a = tl.where(ok, a, one)
    b = tl.load(b_ptr + system * N + i, mask=i < N, other=0.0)
    # The largest row sum bounds every eigenvalue, so the start errs by less than one.
    bound = tl.max(tl.sum(tl.abs(a), axis=1), axis=0)
    inverse = one / bound
    for _step in range(0, STEPS):
        gap = 2.0 * one - tl.dot(a, inverse, input_precision="ieee")
        inverse = tl.dot(inverse, gap, input_precision="ieee")
    x = tl.sum(inverse * b[None, :], axis=1)
    left = b - tl.sum(a * tl.reshape(x, (1, BN)), axis=1)
    x += tl.sum(inverse * tl.reshape(left, (1, BN)), axis=1)
    tl.store(x_ptr + system * N + i, x, mask=i < N)


def run(a, b):
    systems, n = b.shape
    x = torch.empty_like(b)
    solve[(systems,)](a, b, x, n, STEPS=10, BN=max(16, triton.next_power_of_2(n)), num_warps=2)
    return x
