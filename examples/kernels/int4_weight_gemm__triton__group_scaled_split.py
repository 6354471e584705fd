"""Integer-valued products per group, scaled in fp32 afterwards; groups are shared out over programs that add atomically."""

import torch
import triton
import triton.language as tl

GROUP = 128
SPLIT = 4


@triton.jit
def group_products(
    x_ptr, p_ptr, s_ptr, z_ptr, M, N, K, per_split, BM: tl.constexpr, BN: tl.constexpr, HALF: tl.constexpr
):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    rj = tl.arange(0, HALF)
    groups = K // (2 * HALF)
    first = tl.program_id(2) * per_split
    last = min(groups, first + per_split)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for g in range(first, last):
        at = g * HALF + rj
        packed = tl.load(p_ptr + rn[None, :] * (K // 2) + at[:, None], mask=(rn < N)[None, :], other=0)
        x_at = x_ptr + rm[:, None] * K + 2 * at[None, :]
        even = tl.load(x_at, mask=(rm < M)[:, None], other=0.0)
        odd = tl.load(x_at + 1, mask=(rm < M)[:, None], other=0.0)
        raw = tl.dot(even, ((packed & 15).to(tl.int32) - 8).to(tl.float16))
        raw = tl.dot(odd, ((packed >> 4).to(tl.int32) - 8).to(tl.float16), raw)
        scale = tl.load(s_ptr + rn * groups + g, mask=rn < N, other=0.0).to(tl.float32)
        acc += raw * scale[None, :]
    tl.atomic_add(z_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def narrow(z_ptr, y_ptr, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(z_ptr + i, mask=i < total).to(tl.float16), mask=i < total)


def run(x, packed, scale):
    m, k = x.shape
    n = packed.shape[0]
    z = torch.zeros((m, n), device=x.device, dtype=torch.float32)
    y = torch.empty((m, n), device=x.device, dtype=torch.float16)
    per_split = triton.cdiv(k // GROUP, SPLIT)
    grid = (triton.cdiv(n, 64), triton.cdiv(m, 16), SPLIT)
    group_products[grid](
        x, packed, scale, z, m, n, k, per_split, BM=16, BN=64, HALF=GROUP // 2, num_warps=4, num_stages=3
    )
    narrow[(triton.cdiv(m * n, 1024),)](z, y, m * n, BLOCK=1024)
    return y
