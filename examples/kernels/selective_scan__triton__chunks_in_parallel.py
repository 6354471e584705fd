"""Three kernels: chunks of tokens scan from zero, their ends are chained, and each chunk runs again from its start."""

import torch
import triton
import triton.language as tl

CHUNK = 32


@triton.jit
def ends(
    u_ptr, delta_ptr, a_ptr, b_ptr, decay_ptr, end_ptr, C, N, L, CHUNK: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr
):
    batch = tl.program_id(2).to(tl.int64)
    chunk = tl.program_id(1)
    chunks = tl.num_programs(1)
    ch = tl.program_id(0) * BC + tl.arange(0, BC)
    n = tl.arange(0, BN)
    ok = (ch < C)[:, None] & (n < N)[None, :]
    a = tl.load(a_ptr + ch[:, None] * N + n[None, :], mask=ok, other=0.0)
    state = tl.zeros((BC, BN), dtype=tl.float32)
    spent = tl.zeros((BC,), dtype=tl.float32)
    row = (batch * C + ch) * L
    for t in range(chunk * CHUNK, tl.minimum(L, chunk * CHUNK + CHUNK)):
        u = tl.load(u_ptr + row + t, mask=ch < C, other=0.0)
        delta = tl.load(delta_ptr + row + t, mask=ch < C, other=0.0)
        b = tl.load(b_ptr + (batch * N + n) * L + t, mask=n < N, other=0.0)
        state = tl.exp(delta[:, None] * a) * state + (delta * u)[:, None] * b[None, :]
        spent += delta
    at = ((batch * chunks + chunk) * C + ch)[:, None] * N + n[None, :]
    tl.store(end_ptr + at, state, mask=ok)
    tl.store(decay_ptr + at, tl.exp(spent[:, None] * a), mask=ok)


@triton.jit
def chain(decay_ptr, end_ptr, size, chunks, BLOCK: tl.constexpr):
    batch = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), dtype=tl.float32)
    for chunk in range(0, chunks):
        at = (batch * chunks + chunk) * size + i
        decay = tl.load(decay_ptr + at, mask=i < size, other=0.0)
        end = tl.load(end_ptr + at, mask=i < size, other=0.0)
        # The place of a chunk's end now takes its beginning.
        tl.store(end_ptr + at, state, mask=i < size)
        state = decay * state + end


@triton.jit
def outputs(
    u_ptr,
    delta_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    skip_ptr,
    start_ptr,
    y_ptr,
    C,
    N,
    L,
    CHUNK: tl.constexpr,
    BC: tl.constexpr,
    BN: tl.constexpr,
):
    batch = tl.program_id(2).to(tl.int64)
    chunk = tl.program_id(1)
    chunks = tl.num_programs(1)
    ch = tl.program_id(0) * BC + tl.arange(0, BC)
    n = tl.arange(0, BN)
    ok = (ch < C)[:, None] & (n < N)[None, :]
    a = tl.load(a_ptr + ch[:, None] * N + n[None, :], mask=ok, other=0.0)
    skip = tl.load(skip_ptr + ch, mask=ch < C, other=0.0)
    state = tl.load(start_ptr + ((batch * chunks + chunk) * C + ch)[:, None] * N + n[None, :], mask=ok, other=0.0)
    row = (batch * C + ch) * L
    for t in range(chunk * CHUNK, tl.minimum(L, chunk * CHUNK + CHUNK)):
        u = tl.load(u_ptr + row + t, mask=ch < C, other=0.0)
        delta = tl.load(delta_ptr + row + t, mask=ch < C, other=0.0)
        b = tl.load(b_ptr + (batch * N + n) * L + t, mask=n < N, other=0.0)
        c = tl.load(c_ptr + (batch * N + n) * L + t, mask=n < N, other=0.0)
        state = tl.exp(delta[:, None] * a) * state + (delta * u)[:, None] * b[None, :]
        tl.store(y_ptr + row + t, tl.sum(state * c[None, :], axis=1) + skip * u, mask=ch < C)


def run(u, delta, a, b, c, skip):
    batch, channels, length = u.shape
    states = a.shape[1]
    chunks = triton.cdiv(length, CHUNK)
    y = torch.empty_like(u)
    decay = torch.empty((batch, chunks, channels, states), device=u.device, dtype=torch.float32)
    end = torch.empty_like(decay)
    grid = (triton.cdiv(channels, 32), chunks, batch)
    bn = triton.next_power_of_2(states)
    ends[grid](u, delta, a, b, decay, end, channels, states, length, CHUNK=CHUNK, BC=32, BN=bn, num_warps=4)
    chain[(triton.cdiv(channels * states, 256), batch)](decay, end, channels * states, chunks, BLOCK=256, num_warps=4)
    outputs[grid](u, delta, a, b, c, skip, end, y, channels, states, length, CHUNK=CHUNK, BC=32, BN=bn, num_warps=4)
    return y
