# Mamba-2 over a prompt in chunks: what each chunk adds to the state, the states between chunks, then all outputs at once.
# family chunk_scan_tuned for mamba2_scan
# pick chunk = 64, 128, 256
# pick rows = 32, 64, 128
# pick keys = 32, 64
# pick block = 256, 1024
# pick state_warps = 2, 4, 8
# pick warps = 2, 4, 8
# pick stages = 1, 2, 3, 4
# refuse rows > chunk: rows of two chunks
# refuse rows > 32 * warps: too many sums per thread
# refuse rows < 8 * warps: warps without work

import torch
import triton
import triton.language as tl


@triton.jit
def precise(left, right, acc):
    # One rounding to bfloat16 is too coarse for a state that remembers hundreds of tokens.
    high = left.to(tl.bfloat16)
    acc = tl.dot((left - high.to(tl.float32)).to(tl.bfloat16), right, acc)
    return tl.dot(high, right, acc)


@triton.jit
def add_kernel(
    x_ptr, dt_ptr, a_ptr, b_ptr, added_ptr, cum_ptr, length, heads, groups,
    W: tl.constexpr, P: tl.constexpr, S: tl.constexpr, CHUNK: tl.constexpr, KEYS: tl.constexpr, STAGES: tl.constexpr,
):
    chunk, own = tl.program_id(0), tl.program_id(1)
    batch, head = own // heads, own % heads
    group = head // (heads // groups)
    place, column, state = tl.arange(0, KEYS), tl.arange(0, P), tl.arange(0, S)
    rate = tl.load(a_ptr + head)
    before = 0.0
    added = tl.zeros((S, P), dtype=tl.float32)
    for start in tl.range(0, CHUNK, KEYS, num_stages=STAGES):
        t = chunk * CHUNK + start + place
        inside = t < length
        at = batch.to(tl.int64) * length + t
        dt = tl.load(dt_ptr + at * heads + head, mask=inside, other=0.0)
        cum = tl.sum(tl.where(place[:, None] >= place[None, :], (dt * rate)[None, :], 0.0), 1)
        last = tl.sum(dt * rate, 0)
        tl.store(cum_ptr + own.to(tl.int64) * tl.num_programs(0) * CHUNK + t, before + cum)
        x = tl.load(
            x_ptr + (at * heads + head)[:, None] * W + column[None, :],
            mask=inside[:, None] & (column < W)[None, :], other=0.0,
        )
        b = tl.load(b_ptr + (at * groups + group)[:, None] * S + state[None, :], mask=inside[:, None], other=0.0)
        left = tl.trans(b).to(tl.float32) * (dt * tl.exp(last - cum))[None, :]
        added = precise(left, x, added * tl.exp(last))
        before += last
    to = (own * tl.num_programs(0) + chunk).to(tl.int64) * S * P
    tl.store(added_ptr + to + state[:, None] * P + column[None, :], added)


@triton.jit
def pass_kernel(
    added_ptr, cum_ptr, high_ptr, low_ptr, chunks,
    SIZE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):
    own = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), dtype=tl.float32)
    for chunk in tl.range(0, chunks, num_stages=STAGES):
        number = (own * chunks + chunk).to(tl.int64)
        high = state.to(tl.bfloat16)
        tl.store(high_ptr + number * SIZE + at, high)
        tl.store(low_ptr + number * SIZE + at, (state - high.to(tl.float32)).to(tl.bfloat16))
        added = tl.load(added_ptr + number * SIZE + at)
        state = state * tl.exp(tl.load(cum_ptr + number * CHUNK + CHUNK - 1)) + added


@triton.jit
def out_kernel(
    x_ptr, dt_ptr, cum_ptr, b_ptr, c_ptr, skip_ptr, high_ptr, low_ptr, y_ptr, length, heads, groups, chunks,
    W: tl.constexpr, P: tl.constexpr, S: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    STAGES: tl.constexpr,
):
    own, first = tl.program_id(1), tl.program_id(0) * ROWS
    batch, head, chunk = own // heads, own % heads, first // CHUNK
    group = head // (heads // groups)
    column, state = tl.arange(0, P), tl.arange(0, S)
    cum_ptr += own.to(tl.int64) * chunks * CHUNK
    begin = batch.to(tl.int64) * length
    t = first + tl.arange(0, ROWS)
    inside = (t < length)[:, None] & (column < W)[None, :]
    c = tl.load(
        c_ptr + ((begin + t) * groups + group)[:, None] * S + state[None, :], mask=(t < length)[:, None], other=0.0
    )
    cum = tl.load(cum_ptr + t)
    held = (own * chunks + chunk).to(tl.int64) * S * P + state[:, None] * P + column[None, :]
    y = tl.dot(c, tl.load(high_ptr + held))
    y = tl.dot(c, tl.load(low_ptr + held), y) * tl.exp(cum)[:, None]
    for start in tl.range(chunk * CHUNK, first + ROWS, KEYS, num_stages=STAGES):
        s = start + tl.arange(0, KEYS)
        known = s < length
        b = tl.load(
            b_ptr + ((begin + s) * groups + group)[:, None] * S + state[None, :], mask=known[:, None], other=0.0
        )
        x = tl.load(
            x_ptr + ((begin + s) * heads + head)[:, None] * W + column[None, :],
            mask=known[:, None] & (column < W)[None, :], other=0.0,
        )
        dt = tl.load(dt_ptr + (begin + s) * heads + head, mask=known, other=0.0)
        earlier = (t[:, None] >= s[None, :]) & known[None, :]
        gaps = tl.where(earlier, cum[:, None] - tl.load(cum_ptr + s, mask=known, other=0.0)[None, :], -1.0e30)
        y = precise(tl.dot(c, tl.trans(b)) * tl.exp(gaps) * dt[None, :], x, y)
    at = ((begin + t) * heads + head)[:, None] * W + column[None, :]
    y += tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) * tl.load(skip_ptr + head)
    tl.store(y_ptr + at, y.to(tl.bfloat16), mask=inside)


def run(x, dt, a, b, c, skip):
    (batch, length, heads, width), groups, states = x.shape, b.shape[2], b.shape[3]
    chunks = triton.cdiv(length, ${chunk})
    # Narrower operands of a product are read past their end on Hopper by Triton 3.6 (triton-lang/triton#11366).
    padded = max(width, 64)
    y = torch.empty_like(x)
    added = torch.empty((batch * heads, chunks, states, padded), dtype=torch.float32, device=x.device)
    high, low = torch.empty_like(added, dtype=x.dtype), torch.empty_like(added, dtype=x.dtype)
    cum = torch.empty((batch * heads, chunks * ${chunk}), dtype=torch.float32, device=x.device)
    add_kernel[(chunks, batch * heads)](
        x, dt, a, b, added, cum, length, heads, groups,
        W=width, P=padded, S=states, CHUNK=${chunk}, KEYS=${keys}, STAGES=${stages}, num_warps=${state_warps},
    )
    size = states * padded
    pass_kernel[(batch * heads, size // ${block})](
        added, cum, high, low, chunks, SIZE=size, CHUNK=${chunk}, BLOCK=${block}, STAGES=${stages},
        num_warps=${block // 256},
    )
    out_kernel[(triton.cdiv(length, ${rows}), batch * heads)](
        x, dt, cum, b, c, skip, high, low, y, length, heads, groups, chunks,
        W=width, P=padded, S=states, CHUNK=${chunk}, ROWS=${rows}, KEYS=${keys}, STAGES=${stages}, num_warps=${warps},
    )
    return y
