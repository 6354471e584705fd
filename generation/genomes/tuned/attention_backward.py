# Gradients of causal attention: one kernel holds a block of keys and walks over queries, another the other way round.
# family grouped_backward_tuned for attention_backward_gqa
# pick keys = 32, 64, 128
# pick queries = 16, 32, 64
# pick rows = 32, 64, 128
# pick columns = 16, 32, 64
# pick warps = 4, 8
# pick stages = 1, 2, 3
# refuse keys % queries != 0 or rows % columns != 0: the diagonal begins inside a block
# refuse keys < 16 * warps / 2 or rows < 16 * warps / 2: warps without rows of their own

import torch
import triton
import triton.language as tl


@triton.jit
def delta_kernel(o_ptr, do_ptr, delta_ptr, ROWS, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = row[:, None] * D + tl.arange(0, D)[None, :]
    inside = (row < ROWS)[:, None]
    o = tl.load(o_ptr + at, mask=inside, other=0.0).to(tl.float32)
    do = tl.load(do_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(delta_ptr + row, tl.sum(o * do, 1), mask=row < ROWS)


@triton.jit
def keys_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, heads, kv_heads, length, scale,
    D: tl.constexpr, GROUP: tl.constexpr, KEYS: tl.constexpr, QUERIES: tl.constexpr,
):
    first = tl.program_id(0) * KEYS
    batch, kv_head = tl.program_id(1) // kv_heads, tl.program_id(1) % kv_heads
    rk = first + tl.arange(0, KEYS)
    dims = tl.arange(0, D)
    own = tl.program_id(1).to(tl.int64) * length * D + rk[:, None] * D + dims[None, :]
    inside = (rk < length)[:, None]
    k = tl.load(k_ptr + own, mask=inside, other=0.0)
    v = tl.load(v_ptr + own, mask=inside, other=0.0)
    dk = tl.zeros((KEYS, D), dtype=tl.float32)
    dv = tl.zeros((KEYS, D), dtype=tl.float32)
    for member in range(GROUP):
        row = (batch * heads + kv_head * GROUP + member).to(tl.int64) * length
        for start in range(first, length, QUERIES):
            rq = start + tl.arange(0, QUERIES)
            seen = (rq < length)[:, None]
            q = tl.load(q_ptr + row * D + rq[:, None] * D + dims[None, :], mask=seen, other=0.0)
            do = tl.load(do_ptr + row * D + rq[:, None] * D + dims[None, :], mask=seen, other=0.0)
            lse = tl.load(lse_ptr + row + rq, mask=rq < length, other=0.0)
            delta = tl.load(delta_ptr + row + rq, mask=rq < length, other=0.0)
            p = tl.exp2((tl.dot(k, tl.trans(q)) * scale - lse[None, :]) * 1.4426950408889634)
            p = tl.where((rk[:, None] <= rq[None, :]) & (rq < length)[None, :], p, 0.0)
            dv = tl.dot(p.to(tl.bfloat16), do, dv)
            ds = p * (tl.dot(v, tl.trans(do)) - delta[None, :])
            dk = tl.dot(ds.to(tl.bfloat16), q, dk)
    tl.store(dk_ptr + own, (dk * scale).to(tl.bfloat16), mask=inside)
    tl.store(dv_ptr + own, dv.to(tl.bfloat16), mask=inside)


@triton.jit
def queries_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, heads, kv_heads, length, scale,
    D: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    first = tl.program_id(0) * ROWS
    batch, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    rq = first + tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    row = tl.program_id(1).to(tl.int64) * length
    own = row * D + rq[:, None] * D + dims[None, :]
    inside = (rq < length)[:, None]
    q = tl.load(q_ptr + own, mask=inside, other=0.0)
    do = tl.load(do_ptr + own, mask=inside, other=0.0)
    lse = tl.load(lse_ptr + row + rq, mask=rq < length, other=0.0)
    delta = tl.load(delta_ptr + row + rq, mask=rq < length, other=0.0)
    cached = (batch * kv_heads + head // GROUP).to(tl.int64) * length * D
    dq = tl.zeros((ROWS, D), dtype=tl.float32)
    for start in range(0, tl.minimum(length, first + ROWS), COLUMNS):
        rk = start + tl.arange(0, COLUMNS)
        seen = (rk < length)[:, None]
        k = tl.load(k_ptr + cached + rk[:, None] * D + dims[None, :], mask=seen, other=0.0)
        v = tl.load(v_ptr + cached + rk[:, None] * D + dims[None, :], mask=seen, other=0.0)
        p = tl.exp2((tl.dot(q, tl.trans(k)) * scale - lse[:, None]) * 1.4426950408889634)
        p = tl.where(rk[None, :] <= rq[:, None], p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(tl.bfloat16), k, dq)
    tl.store(dq_ptr + own, (dq * scale).to(tl.bfloat16), mask=inside)


def run(q, k, v, o, lse, do):
    (batch, heads, length, dim), kv_heads = q.shape, k.shape[1]
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty_like(lse)
    rows = batch * heads * length
    delta_kernel[(triton.cdiv(rows, 32),)](o, do, delta, rows, D=dim, BLOCK=32, num_warps=4)
    keys_kernel[(triton.cdiv(length, ${keys}), batch * kv_heads)](
        q, k, v, do, lse, delta, dk, dv, heads, kv_heads, length, dim**-0.5, D=dim, GROUP=heads // kv_heads,
        KEYS=${keys}, QUERIES=${queries}, num_warps=${warps}, num_stages=${stages},
    )
    queries_kernel[(triton.cdiv(length, ${rows}), batch * heads)](
        q, k, v, do, lse, delta, dq, heads, kv_heads, length, dim**-0.5, D=dim, GROUP=heads // kv_heads,
        ROWS=${rows}, COLUMNS=${columns}, num_warps=${warps}, num_stages=${stages},
    )
    return dq, dk, dv
