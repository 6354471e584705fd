"""Three kernels with the whole score matrix in memory between them: product, softmax by row, product."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def score(q_ptr, k_ptr, s_ptr, scale, L, D: tl.constexpr, B: tl.constexpr):
    head = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + (head * L + m[:, None]) * D + d[None, :], mask=(m < L)[:, None], other=0.0)
    k = tl.load(k_ptr + (head * L + n[None, :]) * D + d[:, None], mask=(n < L)[None, :], other=0.0)
    s = (tl.dot(q, k) * scale).to(tl.float16)
    tl.store(s_ptr + (head * L + m[:, None]) * L + n[None, :], s, mask=(m < L)[:, None] & (n < L)[None, :])


@triton.jit
def soften(s_ptr, sum_ptr, L, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, BLOCK)
    s = tl.load(s_ptr + row * L + n, mask=n < L, other=-float("inf")).to(tl.float32)
    p = tl.exp(s - tl.max(s, axis=0))
    tl.store(s_ptr + row * L + n, p.to(tl.float16), mask=n < L)
    tl.store(sum_ptr + row, tl.sum(p, axis=0))


@triton.jit
def mix(p_ptr, v_ptr, sum_ptr, o_ptr, L, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, L, BK):
        k = start + tl.arange(0, BK)
        at = (head * L + m[:, None]) * L + k[None, :]
        p = tl.load(p_ptr + at, mask=(m < L)[:, None] & (k < L)[None, :], other=0.0)
        v = tl.load(v_ptr + (head * L + k[:, None]) * D + d[None, :], mask=(k < L)[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
    total = tl.load(sum_ptr + head * L + m, mask=m < L, other=1.0)
    out = (acc / total[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + (head * L + m[:, None]) * D + d[None, :], out, mask=(m < L)[:, None])


def run(q, k, v):
    b, h, length, d = q.shape
    o = torch.empty_like(q)
    scores = torch.empty((b * h, length, length), device=q.device, dtype=torch.float16)
    sums = torch.empty((b * h, length), device=q.device, dtype=torch.float32)
    side = triton.cdiv(length, 64)
    score[(side, side, b * h)](q, k, scores, 1.0 / math.sqrt(d), length, D=d, B=64, num_warps=4)
    soften[(b * h * length,)](scores, sums, length, BLOCK=triton.next_power_of_2(length), num_warps=4)
    mix[(side, b * h)](scores, v, sums, o, length, D=d, BM=64, BK=64, num_warps=4, num_stages=3)
    return o
