"""Counting sort with one-hot tiles: chunk counts, one program that scans them, ranks by running sums, row gather."""

import torch
import triton
import triton.language as tl


@triton.jit
def tally(experts_ptr, table_ptr, n, kinds, BC: tl.constexpr, BE: tl.constexpr):
    chunk = tl.program_id(0)
    i = chunk * BC + tl.arange(0, BC)
    e = tl.arange(0, BE)
    mine = tl.load(experts_ptr + i, mask=i < n, other=-1)
    hot = (mine[:, None] == e[None, :]).to(tl.int32)
    tl.store(table_ptr + chunk * kinds + e, tl.sum(hot, axis=0), mask=e < kinds)


@triton.jit
def offsets(table_ptr, first_ptr, counts_ptr, chunks, kinds, BK: tl.constexpr, BE: tl.constexpr):
    e = tl.arange(0, BE)
    c = tl.arange(0, BK)
    at = c[:, None] * kinds + e[None, :]
    ok = (c < chunks)[:, None] & (e < kinds)[None, :]
    table = tl.load(table_ptr + at, mask=ok, other=0)
    total = tl.sum(table, axis=0)
    tl.store(counts_ptr + e, total, mask=e < kinds)
    first = tl.cumsum(total, axis=0) - total
    tl.store(first_ptr + at, first[None, :] + tl.cumsum(table, axis=0) - table, mask=ok)


@triton.jit
def place(experts_ptr, first_ptr, tokens_ptr, n, kinds, k, BC: tl.constexpr, BE: tl.constexpr):
    chunk = tl.program_id(0)
    i = chunk * BC + tl.arange(0, BC)
    e = tl.arange(0, BE)
    mine = tl.load(experts_ptr + i, mask=i < n, other=-1)
    hot = (mine[:, None] == e[None, :]).to(tl.int32)
    rank = tl.sum(hot * (tl.cumsum(hot, axis=0) - 1), axis=1)
    first = tl.load(first_ptr + chunk * kinds + mine, mask=i < n, other=0)
    tl.store(tokens_ptr + first + rank, i // k, mask=i < n)


@triton.jit
def gather(x_ptr, tokens_ptr, out_ptr, H, BH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    token = tl.load(tokens_ptr + row).to(tl.int64)
    for start in range(0, H, BH):
        h = start + tl.arange(0, BH)
        tl.store(out_ptr + row * H + h, tl.load(x_ptr + token * H + h, mask=h < H), mask=h < H)


def run(x, experts, num_experts):
    hidden = x.shape[1]
    n = experts.numel()
    chunk = 256
    chunks = triton.cdiv(n, chunk)
    out = torch.empty((n, hidden), device=x.device, dtype=x.dtype)
    tokens = torch.empty((n,), device=x.device, dtype=torch.int32)
    counts = torch.empty((num_experts,), device=x.device, dtype=torch.int32)
    table = torch.empty((chunks, num_experts), device=x.device, dtype=torch.int32)
    first = torch.empty_like(table)
    be = triton.next_power_of_2(num_experts)
    tally[(chunks,)](experts, table, n, num_experts, BC=chunk, BE=be, num_warps=4)
    offsets[(1,)](table, first, counts, chunks, num_experts, BK=triton.next_power_of_2(chunks), BE=be, num_warps=8)
    place[(chunks,)](experts, first, tokens, n, num_experts, experts.shape[1], BC=chunk, BE=be, num_warps=8)
    gather[(n,)](x, tokens, out, hidden, BH=min(2048, triton.next_power_of_2(hidden)), num_warps=4)
    return out, tokens, counts
