"""Three kernels for each query head: all scores to memory, their maximum and sum, then the weighted values."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def scores(q_ptr, k_ptr, s_ptr, scale, L, H, KV, D, BT: tl.constexpr, BD: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    batch = head // H
    kv = (head % H) // (H // KV)
    t = tl.program_id(1) * BT + tl.arange(0, BT)
    d = tl.arange(0, BD)
    q = tl.load(q_ptr + head * D + d, mask=d < D, other=0.0).to(tl.float32) * scale
    at = ((batch * L + t[:, None]) * KV + kv) * D + d[None, :]
    k = tl.load(k_ptr + at, mask=(t < L)[:, None] & (d < D)[None, :], other=0.0).to(tl.float32)
    tl.store(s_ptr + head * L + t, tl.sum(k * q[None, :], axis=1), mask=t < L)


@triton.jit
def normaliser(s_ptr, lse_ptr, L, BL: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, BL)
    s = tl.load(s_ptr + head * L + t, mask=t < L, other=-float("inf"))
    top = tl.max(s, axis=0)
    tl.store(lse_ptr + head, top + tl.log(tl.sum(tl.exp(s - top), axis=0)))


@triton.jit
def values(s_ptr, lse_ptr, v_ptr, o_ptr, L, H, KV, D, BT: tl.constexpr, BD: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    batch = head // H
    kv = (head % H) // (H // KV)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    lse = tl.load(lse_ptr + head)
    acc = tl.zeros((BD,), dtype=tl.float32)
    for start in range(0, L, BT):
        t = start + tl.arange(0, BT)
        p = tl.exp(tl.load(s_ptr + head * L + t, mask=t < L, other=-float("inf")) - lse)
        at = ((batch * L + t[:, None]) * KV + kv) * D + d[None, :]
        v = tl.load(v_ptr + at, mask=(t < L)[:, None] & (d < D)[None, :], other=0.0).to(tl.float32)
        acc += tl.sum(p[:, None] * v, axis=0)
    tl.store(o_ptr + head * D + d, acc.to(o_ptr.dtype.element_ty), mask=d < D)


def run(q, k, v):
    b, h, d = q.shape
    length, kv = k.shape[1], k.shape[2]
    o = torch.empty_like(q)
    s = torch.empty((b * h, length), device=q.device, dtype=torch.float32)
    lse = torch.empty((b * h,), device=q.device, dtype=torch.float32)
    scores[(b * h, triton.cdiv(length, 64))](
        q, k, s, 1.0 / math.sqrt(d), length, h, kv, d, BT=64, BD=triton.next_power_of_2(d), num_warps=4
    )
    normaliser[(b * h,)](s, lse, length, BL=triton.next_power_of_2(length), num_warps=8)
    values[(b * h, triton.cdiv(d, 64))](s, lse, v, o, length, h, kv, d, BT=64, BD=64, num_warps=4)
    return o
