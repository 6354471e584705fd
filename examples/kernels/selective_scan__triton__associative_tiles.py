"""A program a channel scans tiles of states by tokens associatively and carries the last state along."""

import torch
import triton
import triton.language as tl


@triton.jit
def compose(decay_left, drive_left, decay_right, drive_right):
    return decay_left * decay_right, drive_left * decay_right + drive_right


@triton.jit
def scan(u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, y_ptr, C, N, L, BN: tl.constexpr, BT: tl.constexpr):
    ch = tl.program_id(0)
    batch = tl.program_id(1).to(tl.int64)
    n = tl.arange(0, BN)
    lane = tl.arange(0, BT)
    a = tl.load(a_ptr + ch * N + n, mask=n < N, other=0.0) * 1.4426950408889634
    skip = tl.load(skip_ptr + ch)
    row = (batch * C + ch) * L
    carry = tl.zeros((BN,), dtype=tl.float32)
    for start in range(0, L, BT):
        t = start + lane
        u = tl.load(u_ptr + row + t, mask=t < L, other=0.0)
        delta = tl.load(delta_ptr + row + t, mask=t < L, other=0.0)
        at = (batch * N + n)[:, None] * L + t[None, :]
        ok = (n < N)[:, None] & (t < L)[None, :]
        b = tl.load(b_ptr + at, mask=ok, other=0.0)
        c = tl.load(c_ptr + at, mask=ok, other=0.0)
        decay = tl.exp2(delta[None, :] * a[:, None])
        drive = (delta * u)[None, :] * b
        decay, drive = tl.associative_scan((decay, drive), 1, compose)
        state = decay * carry[:, None] + drive
        tl.store(y_ptr + row + t, tl.sum(state * c, axis=0) + skip * u, mask=t < L)
        carry = tl.sum(tl.where((lane == BT - 1)[None, :], state, 0.0), axis=1)


def run(u, delta, a, b, c, skip):
    batch, channels, length = u.shape
    states = a.shape[1]
    y = torch.empty_like(u)
    tile = min(128, triton.next_power_of_2(length))
    scan[(channels, batch)](
        u, delta, a, b, c, skip, y, channels, states, length, BN=triton.next_power_of_2(states), BT=tile, num_warps=4
    )
    return y
