# Mamba-2 over a prompt in chunks: what each chunk adds to the state, the states between chunks, then all outputs at once.
# family chunk_scan_tuned for mamba2_scan
# pick chunk = 32, 64, 128, 256
# pick block = 128, 256, 512, 1024
# pick state_warps = 2, 4, 8
# pick warps = 2, 4, 8
# pick stages = 1, 2, 3
# refuse chunk * chunk > 4096 * warps: more than 128 scores per thread

import torch
import triton
import triton.language as tl


@triton.jit
def sums_so_far(v, CHUNK: tl.constexpr):
    # Instead of tl.cumsum: with it, chunks of 128 were wrong on an H200 (Triton 3.6) and right in the interpreter.
    place = tl.arange(0, CHUNK)
    return tl.sum(tl.where(place[:, None] >= place[None, :], v[None, :], 0.0), 1)


@triton.jit
def add_kernel(
    x_ptr, dt_ptr, a_ptr, b_ptr, added_ptr, last_ptr, length, heads, groups,
    W: tl.constexpr, S: tl.constexpr, CHUNK: tl.constexpr,
):
    chunk, own = tl.program_id(0), tl.program_id(1)
    batch, head = own // heads, own % heads
    t = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = t < length
    at = batch.to(tl.int64) * length + t
    dt = tl.load(dt_ptr + at * heads + head, mask=inside, other=0.0)
    decay = dt * tl.load(a_ptr + head)
    cum = sums_so_far(decay, CHUNK)
    last = tl.sum(decay, 0)
    x = tl.load(x_ptr + (at * heads + head)[:, None] * W + tl.arange(0, W)[None, :], mask=inside[:, None], other=0.0)
    group = head // (heads // groups)
    b = tl.load(b_ptr + (at * groups + group)[:, None] * S + tl.arange(0, S)[None, :], mask=inside[:, None], other=0.0)
    u = (x.to(tl.float32) * (dt * tl.exp(last - cum))[:, None]).to(tl.bfloat16)
    added = tl.dot(tl.trans(b), u)
    place = (own * tl.num_programs(0) + chunk).to(tl.int64) * S * W
    tl.store(added_ptr + place + tl.arange(0, S)[:, None] * W + tl.arange(0, W)[None, :], added)
    tl.store(last_ptr + own * tl.num_programs(0) + chunk, last)


@triton.jit
def pass_kernel(added_ptr, last_ptr, state_ptr, chunks, SIZE: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    own = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), dtype=tl.float32)
    for chunk in tl.range(0, chunks, num_stages=STAGES):
        place = (own * chunks + chunk).to(tl.int64) * SIZE + at
        tl.store(state_ptr + place, state.to(tl.bfloat16), mask=at < SIZE)
        added = tl.load(added_ptr + place, mask=at < SIZE, other=0.0)
        state = state * tl.exp(tl.load(last_ptr + own * chunks + chunk)) + added


@triton.jit
def out_kernel(
    x_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, state_ptr, y_ptr, length, heads, groups,
    W: tl.constexpr, S: tl.constexpr, CHUNK: tl.constexpr,
):
    chunk, own = tl.program_id(0), tl.program_id(1)
    batch, head = own // heads, own % heads
    place = tl.arange(0, CHUNK)
    t = chunk * CHUNK + place
    inside = t < length
    at = batch.to(tl.int64) * length + t
    dt = tl.load(dt_ptr + at * heads + head, mask=inside, other=0.0)
    cum = sums_so_far(dt * tl.load(a_ptr + head), CHUNK)
    group = head // (heads // groups)
    shared = (at * groups + group)[:, None] * S + tl.arange(0, S)[None, :]
    b = tl.load(b_ptr + shared, mask=inside[:, None], other=0.0)
    c = tl.load(c_ptr + shared, mask=inside[:, None], other=0.0)
    own_rows = (at * heads + head)[:, None] * W + tl.arange(0, W)[None, :]
    x = tl.load(x_ptr + own_rows, mask=inside[:, None], other=0.0).to(tl.float32)
    held = (own * tl.num_programs(0) + chunk).to(tl.int64) * S * W
    state = tl.load(state_ptr + held + tl.arange(0, S)[:, None] * W + tl.arange(0, W)[None, :])
    gaps = tl.where(place[:, None] >= place[None, :], cum[:, None] - cum[None, :], -1.0e30)
    scores = (tl.dot(c, tl.trans(b)) * tl.exp(gaps)).to(tl.bfloat16)
    y = tl.dot(c, state) * tl.exp(cum)[:, None]
    y = tl.dot(scores, (x * dt[:, None]).to(tl.bfloat16), y) + x * tl.load(skip_ptr + head)
    tl.store(y_ptr + own_rows, y.to(tl.bfloat16), mask=inside[:, None])


def run(x, dt, a, b, c, skip):
    (batch, length, heads, width), groups, states = x.shape, b.shape[2], b.shape[3]
    chunks = triton.cdiv(length, ${chunk})
    y = torch.empty_like(x)
    added = torch.empty((batch * heads, chunks, states, width), dtype=torch.float32, device=x.device)
    held = torch.empty((batch * heads, chunks, states, width), dtype=x.dtype, device=x.device)
    last = torch.empty((batch * heads, chunks), dtype=torch.float32, device=x.device)
    add_kernel[(chunks, batch * heads)](
        x, dt, a, b, added, last, length, heads, groups, W=width, S=states, CHUNK=${chunk}, num_warps=${state_warps}
    )
    size = states * width
    pass_kernel[(batch * heads, triton.cdiv(size, ${block}))](
        added, last, held, chunks, SIZE=size, BLOCK=${block}, STAGES=${stages}, num_warps=${block // 128}
    )
    out_kernel[(chunks, batch * heads)](
        x, dt, a, b, c, skip, held, y, length, heads, groups, W=width, S=states, CHUNK=${chunk}, num_warps=${warps}
    )
    return y
