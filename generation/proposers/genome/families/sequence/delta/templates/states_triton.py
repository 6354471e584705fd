import torch
import triton
import triton.language as tl


@triton.jit
def chunk_rows(base, row, heads, width, first_col, COLS: tl.constexpr):
    return base + row[:, None] * heads * width + first_col + tl.arange(0, COLS)[None, :]


%% if method == "fused"
@triton.jit
def state_kernel(k_ptr, w_ptr, u_ptr, g_ptr, h_ptr, v_ptr, length, heads, K: tl.constexpr, V: tl.constexpr,
                 COLS: tl.constexpr, ROWS: tl.constexpr):
    first = tl.program_id(0) * COLS
    head = tl.program_id(1)
    batch = tl.program_id(2)
    chunks = length // 64
    state = tl.zeros((K, COLS), tl.float32)
    wide = tl.arange(0, K)
    for n in range(chunks):
        token = (batch * length + n * 64).to(tl.int64)
        keys = token * heads * K + head * K
        values = token * heads * V + head * V
        slot = ((batch * chunks + n) * heads + head).to(tl.int64) * K * V
        tl.store(h_ptr + slot + wide[:, None] * V + (first + tl.arange(0, COLS))[None, :], state)
        last = tl.load(g_ptr + (token + 63) * heads + head)
        following = state * tl.exp(last)
        for start in range(0, 64, ROWS):
            row = start + tl.arange(0, ROWS)
            w = tl.load(w_ptr + chunk_rows(keys, row, heads, K, 0, K))
            place = chunk_rows(values, row, heads, V, first, COLS)
            fresh = tl.load(u_ptr + place) - tl.dot(w, state, input_precision="${precision}")
            tl.store(v_ptr + place, fresh)
            decay = tl.exp(last - tl.load(g_ptr + (token + row) * heads + head))
%% if keys == "direct"
            k = tl.load(k_ptr + keys + row[None, :] * heads * K + wide[:, None])
%% else
            k = tl.trans(tl.load(k_ptr + chunk_rows(keys, row, heads, K, 0, K)))
%% endif
%% if scaling == "values"
            following += tl.dot(k, fresh * decay[:, None], input_precision="${precision}")
%% else
            following += tl.dot(k * decay[None, :], fresh, input_precision="${precision}")
%% endif
        state = following


%% else
@triton.jit
def fresh_kernel(w_ptr, u_ptr, h_ptr, v_ptr, length, heads, n, K: tl.constexpr, V: tl.constexpr, COLS: tl.constexpr,
                 ROWS: tl.constexpr):
    first = tl.program_id(0) * COLS
    head = tl.program_id(1) % heads
    batch = tl.program_id(1) // heads
    token = (batch * length + n * 64).to(tl.int64)
    row = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    slot = ((batch * (length // 64) + n) * heads + head).to(tl.int64) * K * V
    state = tl.load(h_ptr + slot + tl.arange(0, K)[:, None] * V + (first + tl.arange(0, COLS))[None, :])
    w = tl.load(w_ptr + chunk_rows(token * heads * K + head * K, row, heads, K, 0, K))
    place = chunk_rows(token * heads * V + head * V, row, heads, V, first, COLS)
    tl.store(v_ptr + place, tl.load(u_ptr + place) - tl.dot(w, state, input_precision="${precision}"))


@triton.jit
def follow_kernel(k_ptr, g_ptr, h_ptr, v_ptr, length, heads, n, K: tl.constexpr, V: tl.constexpr, COLS: tl.constexpr,
                  ROWS: tl.constexpr):
    first = tl.program_id(0) * COLS
    head = tl.program_id(1) % heads
    batch = tl.program_id(1) // heads
    token = (batch * length + n * 64).to(tl.int64)
    wide = tl.arange(0, K)
    chunks = length // 64
    inside = wide[:, None] * V + (first + tl.arange(0, COLS))[None, :]
    slot = ((batch * chunks + n) * heads + head).to(tl.int64) * K * V
    last = tl.load(g_ptr + (token + 63) * heads + head)
    following = tl.load(h_ptr + slot + inside) * tl.exp(last)
    keys = token * heads * K + head * K
    for start in range(0, 64, ROWS):
        row = start + tl.arange(0, ROWS)
        fresh = tl.load(v_ptr + chunk_rows(token * heads * V + head * V, row, heads, V, first, COLS))
        decay = tl.exp(last - tl.load(g_ptr + (token + row) * heads + head))
%% if keys == "direct"
        k = tl.load(k_ptr + keys + row[None, :] * heads * K + wide[:, None])
%% else
        k = tl.trans(tl.load(k_ptr + chunk_rows(keys, row, heads, K, 0, K)))
%% endif
%% if scaling == "values"
        following += tl.dot(k, fresh * decay[:, None], input_precision="${precision}")
%% else
        following += tl.dot(k * decay[None, :], fresh, input_precision="${precision}")
%% endif
    next_slot = ((batch * chunks + n + 1) * heads + head).to(tl.int64) * K * V
    tl.store(h_ptr + next_slot + inside, following)


@triton.jit
def zero_kernel(h_ptr, stride, SIZE: tl.constexpr, BLOCK: tl.constexpr, heads):
    batch = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    base = batch.to(tl.int64) * stride + head * SIZE
    for start in range(0, SIZE, BLOCK):
        tl.store(h_ptr + base + start + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))


%% endif
def run(k, w, u, g):
    batch, length, heads, width = k.shape
    wide = u.shape[3]
    chunks = length // 64
    h = torch.empty((batch, chunks, heads, width, wide), dtype=torch.float32, device=k.device)
    v = torch.empty_like(u)
%% if method == "fused"
    grid = (wide // ${cols}, heads, batch)
    state_kernel[grid](
        k, w, u, g, h, v, length, heads, K=width, V=wide, COLS=${cols}, ROWS=${rows}, num_warps=${warps},
        num_stages=${stages}
    )
%% else
    size = width * wide
    zero_kernel[(batch * heads,)](h, chunks * heads * size, SIZE=size, BLOCK=1024, heads=heads)
    for n in range(chunks):
        fresh_kernel[(wide // ${cols}, batch * heads, ${64 // rows})](
            w, u, h, v, length, heads, n, K=width, V=wide, COLS=${cols}, ROWS=${rows}, num_warps=${warps}
        )
        if n + 1 < chunks:
            follow_kernel[(wide // ${cols}, batch * heads)](
                k, g, h, v, length, heads, n, K=width, V=wide, COLS=${cols}, ROWS=${rows}, num_warps=${warps}
            )
%% endif
    return h, v
