# The selective scan: step by step, associative or closed form, over states or over time.
# family state_scan_triton for selective_scan
# shape method = "steps", "associative", "closed"
# shape base = "e", "two"
# shape rows = 1, 2, 4, 8, 16, 32
# pick chunk = 16, 32, 64, 128, 256, 512
# pick warps = 1, 2, 4, 8
# refuse method == "steps" and chunk != 32: chunks belong to the scans
# refuse method == "closed" and chunk > 64: the closed form's exponentials grow with the chunk
# refuse method != "steps" and chunk > 128 * warps: long chunks on few threads compile for minutes
# refuse method != "steps" and rows > 4: rows run one after the other

import torch
import triton
import triton.language as tl


%% set power = "tl.exp2" if base == "two" else "tl.exp"
%% if method == "steps"
@triton.jit
def scan_kernel(u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, y_ptr, channels, length, N: tl.constexpr,
                ROWS: tl.constexpr, CHUNK: tl.constexpr):
    batch = tl.program_id(1)
    channel = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    known = channel < channels
    state_of = tl.arange(0, N)
    a = tl.load(a_ptr + channel[:, None] * N + state_of[None, :], mask=known[:, None], other=0.0)
%% if base == "two"
    a *= 1.4426950408889634
%% endif
    skip = tl.load(skip_ptr + channel, mask=known, other=0.0)
    state = tl.zeros((ROWS, N), tl.float32)
    line = (batch * channels + channel).to(tl.int64) * length
    shared = (batch * N + state_of).to(tl.int64) * length
    for t in range(length):
        u = tl.load(u_ptr + line + t, mask=known, other=0.0)
        step = tl.load(delta_ptr + line + t, mask=known, other=0.0)
        b = tl.load(b_ptr + shared + t)
        c = tl.load(c_ptr + shared + t)
        state = ${power}(step[:, None] * a) * state + (step * u)[:, None] * b[None, :]
        tl.store(y_ptr + line + t, tl.sum(state * c[None, :], 1) + skip * u, mask=known)


%% else
@triton.jit
def join_steps(decay_one, drive_one, decay_two, drive_two):
    return decay_one * decay_two, decay_two * drive_one + drive_two


@triton.jit
def scan_kernel(u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, y_ptr, channels, length, N: tl.constexpr,
                ROWS: tl.constexpr, CHUNK: tl.constexpr):
    batch = tl.program_id(1)
    state_of = tl.arange(0, N)
    token = tl.arange(0, CHUNK)
    for row in range(ROWS):
        channel = tl.program_id(0) * ROWS + row
        if channel < channels:
            a = tl.load(a_ptr + channel * N + state_of)
%% if base == "two"
            a *= 1.4426950408889634
%% endif
            skip = tl.load(skip_ptr + channel)
            line = (batch * channels + channel).to(tl.int64) * length
            state = tl.zeros((N,), tl.float32)
            for start in range(0, length, CHUNK):
                t = start + token
                inside = t < length
                u = tl.load(u_ptr + line + t, mask=inside, other=0.0)
                step = tl.load(delta_ptr + line + t, mask=inside, other=0.0)
                shared = (batch * N + state_of).to(tl.int64)[:, None] * length + t[None, :]
                b = tl.load(b_ptr + shared, mask=inside[None, :], other=0.0)
                c = tl.load(c_ptr + shared, mask=inside[None, :], other=0.0)
                drive = (step * u)[None, :] * b
%% if method == "associative"
                decay, states = tl.associative_scan((${power}(step[None, :] * a[:, None]), drive), 1, join_steps)
                states += decay * state[:, None]
%% else
                total = tl.cumsum(step, 0)[None, :] * a[:, None]
                states = ${power}(total) * (state[:, None] + tl.cumsum(drive * ${power}(-total), 1))
%% endif
                y = tl.sum(states * c, 0) + skip * u
                tl.store(y_ptr + line + t, y, mask=inside)
                state = tl.sum(tl.where((token == CHUNK - 1)[None, :], states, 0.0), 1)


%% endif
def run(u, delta, a, b, c, skip):
    batch, channels, length = u.shape
    y = torch.empty_like(u)
    grid = (triton.cdiv(channels, ${rows}), batch)
    scan_kernel[grid](
        u, delta, a, b, c, skip, y, channels, length, N=a.shape[1], ROWS=${rows}, CHUNK=${chunk}, num_warps=${warps}
    )
    return y
