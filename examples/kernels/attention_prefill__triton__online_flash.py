"""One program per block of queries keeps a running maximum while it passes over the keys once."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def flash(q_ptr, k_ptr, v_ptr, o_ptr, scale, L, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * L * D
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head + m[:, None] * D + d[None, :], mask=(m < L)[:, None], other=0.0)
    top = tl.full((BM,), -1.0e30, dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, L, BN):
        t = start + n
        k = tl.load(k_ptr + head + t[None, :] * D + d[:, None], mask=(t < L)[None, :], other=0.0)
        s = tl.dot(q, k) * scale
        s = tl.where((t < L)[None, :], s, -1.0e30)
        larger = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - larger[:, None])
        keep = tl.exp2(top - larger)
        total = total * keep + tl.sum(p, axis=1)
        v = tl.load(v_ptr + head + t[:, None] * D + d[None, :], mask=(t < L)[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * keep[:, None])
        top = larger
    out = (acc / total[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + head + m[:, None] * D + d[None, :], out, mask=(m < L)[:, None])


def run(q, k, v):
    b, h, length, d = q.shape
    o = torch.empty_like(q)
    scale = 1.4426950408889634 / math.sqrt(d)
    warps = 4 if d <= 64 else 8
    grid = (triton.cdiv(length, 128), b * h)
    flash[grid](q, k, v, o, scale, length, D=d, BM=128, BN=64, num_warps=warps, num_stages=3)
    return o
