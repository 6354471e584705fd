# One token of a recurrent layer: each program reads some rows of a head's state, brings them up to date and writes them back.
# family mamba2_decode_tuned for mamba2_decode
# family delta_decode_tuned for gated_delta_decode
# let mamba = problem == "mamba2_decode"
# pick block = 4, 8, 16, 32, 64
# pick heads = 1, 2, 4, 8
# pick warps = 1, 2, 4, 8
# pick stages = 1, 2, 3, 4
# refuse block > 32 * warps: more than 128 numbers per thread
# refuse block < warps: fewer than four numbers per thread
# refuse heads == 1 and stages > 1: one head has no pipeline

import torch
import triton
import triton.language as tl


%% if mamba
@triton.jit
def step(
    state_ptr, x_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, y_ptr, new_ptr, heads, group,
    W: tl.constexpr, S: tl.constexpr, BLOCK: tl.constexpr, HEADS: tl.constexpr, STAGES: tl.constexpr,
):
    batch = tl.program_id(2)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, S)
    for h in tl.range(0, HEADS, num_stages=STAGES):
        head = tl.program_id(1) * HEADS + h
        known = row < tl.where(head < heads, W, 0)
        own = batch * heads + head
        at = own.to(tl.int64) * W * S + row[:, None] * S + column[None, :]
        state = tl.load(state_ptr + at, mask=known[:, None], other=0.0)
        dt = tl.load(dt_ptr + own, mask=head < heads, other=0.0)
        decay = tl.exp(dt * tl.load(a_ptr + head, mask=head < heads, other=0.0))
        x = tl.load(x_ptr + own * W + row, mask=known, other=0.0).to(tl.float32)
        shared = (batch * (heads // group) + head // group) * S + column
        b = tl.load(b_ptr + shared, mask=column < tl.where(head < heads, S, 0), other=0.0).to(tl.float32)
        c = tl.load(c_ptr + shared, mask=column < tl.where(head < heads, S, 0), other=0.0).to(tl.float32)
        state = state * decay + (x * dt)[:, None] * b[None, :]
        skip = tl.load(skip_ptr + head, mask=head < heads, other=0.0)
        y = tl.sum(state * c[None, :], 1) + x * skip
        tl.store(new_ptr + at, state, mask=known[:, None])
        tl.store(y_ptr + own * W + row, y.to(tl.bfloat16), mask=known)


def run(state, x, dt, a, b, c, skip):
    batch, heads, width, states = state.shape
    y, new_state = torch.empty_like(x), torch.empty_like(state)
    step[(triton.cdiv(width, ${block}), triton.cdiv(heads, ${heads}), batch)](
        state, x, dt, a, b, c, skip, y, new_state, heads, heads // b.shape[1], W=width, S=states,
        BLOCK=${block}, HEADS=${heads}, STAGES=${stages}, num_warps=${warps},
    )
    return y, new_state
%% else
@triton.jit
def step(
    state_ptr, q_ptr, k_ptr, v_ptr, beta_ptr, g_ptr, o_ptr, new_ptr, heads, group, scale,
    W: tl.constexpr, BLOCK: tl.constexpr, HEADS: tl.constexpr, STAGES: tl.constexpr,
):
    # Columns of the state are independent of each other; a program takes BLOCK of them with all rows.
    batch = tl.program_id(2)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.arange(0, W)
    for h in tl.range(0, HEADS, num_stages=STAGES):
        head = tl.program_id(1) * HEADS + h
        known = column < tl.where(head < heads, W, 0)
        own = batch * heads + head
        at = own.to(tl.int64) * W * W + row[:, None] * W + column[None, :]
        state = tl.load(state_ptr + at, mask=known[None, :], other=0.0)
        shared = (batch * (heads // group) + head // group) * W + row
        k = tl.load(k_ptr + shared, mask=row < tl.where(head < heads, W, 0), other=0.0).to(tl.float32)
        q = tl.load(q_ptr + shared, mask=row < tl.where(head < heads, W, 0), other=0.0).to(tl.float32)
        v = tl.load(v_ptr + own * W + column, mask=known, other=0.0).to(tl.float32)
        state *= tl.exp(tl.load(g_ptr + own, mask=head < heads, other=0.0))
        change = tl.load(beta_ptr + own, mask=head < heads, other=0.0) * (v - tl.sum(state * k[:, None], 0))
        state += k[:, None] * change[None, :]
        o = tl.sum(state * q[:, None], 0) * scale
        tl.store(new_ptr + at, state, mask=known[None, :])
        tl.store(o_ptr + own * W + column, o.to(tl.bfloat16), mask=known)


def run(state, q, k, v, beta, g):
    batch, heads, width, _ = state.shape
    o, new_state = torch.empty_like(v), torch.empty_like(state)
    step[(triton.cdiv(width, ${block}), triton.cdiv(heads, ${heads}), batch)](
        state, q, k, v, beta, g, o, new_state, heads, heads // k.shape[1], width**-0.5, W=width,
        BLOCK=${block}, HEADS=${heads}, STAGES=${stages}, num_warps=${warps},
    )
    return o, new_state
%% endif
