"""One program a key-value head: its query heads share each tile of keys through a padded matrix product."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def decode(q_ptr, k_ptr, v_ptr, o_ptr, scale, L, KV, D, G, BG: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr):
    batch = tl.program_id(0).to(tl.int64)
    kv = tl.program_id(1)
    g = tl.arange(0, BG)
    d = tl.arange(0, BD)
    heads = (batch * KV + kv) * G + g
    q_at = heads[:, None] * D + d[None, :]
    q_ok = (g < G)[:, None] & (d < D)[None, :]
    q = tl.load(q_ptr + q_at, mask=q_ok, other=0.0)
    top = tl.full((BG,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BG,), dtype=tl.float32)
    acc = tl.zeros((BG, BD), dtype=tl.float32)
    for start in range(0, L, BT):
        t = start + tl.arange(0, BT)
        at = ((batch * L + t[:, None]) * KV + kv) * D + d[None, :]
        ok = (t < L)[:, None] & (d < D)[None, :]
        k = tl.load(k_ptr + at, mask=ok, other=0.0)
        v = tl.load(v_ptr + at, mask=ok, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where((t < L)[None, :], s, -float("inf"))
        new_top = tl.maximum(top, tl.max(s, axis=1))
        keep = tl.exp(top - new_top)
        p = tl.exp(s - new_top[:, None])
        acc = acc * keep[:, None] + tl.dot(p.to(v.dtype), v)
        total = total * keep + tl.sum(p, axis=1)
        top = new_top
    tl.store(o_ptr + q_at, (acc / total[:, None]).to(o_ptr.dtype.element_ty), mask=q_ok)


def run(q, k, v):
    b, h, d = q.shape
    length, kv = k.shape[1], k.shape[2]
    group = h // kv
    o = torch.empty_like(q)
    bg = max(16, triton.next_power_of_2(group))
    decode[(b, kv)](
        q,
        k,
        v,
        o,
        1.0 / math.sqrt(d),
        length,
        kv,
        d,
        group,
        BG=bg,
        BT=64,
        BD=triton.next_power_of_2(d),
        num_warps=4,
        num_stages=3,
    )
    return o
