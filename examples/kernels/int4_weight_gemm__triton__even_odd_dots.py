"""The nibbles are never interleaved: low nibbles meet the even columns of x, high nibbles the odd ones."""

import torch
import triton
import triton.language as tl

GROUP = 128


@triton.jit
def even_odd(x_ptr, p_ptr, s_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, HALF: tl.constexpr):
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rj = tl.arange(0, HALF)
    groups = K // (2 * HALF)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for g in range(groups):
        at = g * HALF + rj
        packed = tl.load(p_ptr + rn[None, :] * (K // 2) + at[:, None], mask=(rn < N)[None, :], other=0)
        scale = tl.load(s_ptr + rn * groups + g, mask=rn < N, other=0.0)
        low = ((packed & 15).to(tl.float16) - 8.0).to(tl.float16) * scale[None, :]
        high = ((packed >> 4).to(tl.float16) - 8.0).to(tl.float16) * scale[None, :]
        even = tl.load(x_ptr + rm[:, None] * K + 2 * at[None, :], mask=(rm < M)[:, None], other=0.0)
        odd = tl.load(x_ptr + rm[:, None] * K + 2 * at[None, :] + 1, mask=(rm < M)[:, None], other=0.0)
        acc = tl.dot(even, low, acc)
        acc = tl.dot(odd, high, acc)
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, packed, scale):
    m, k = x.shape
    n = packed.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.float16)
    even_odd[(triton.cdiv(n, 32), triton.cdiv(m, 16))](
        x, packed, scale, y, m, n, k, BM=16, BN=32, HALF=GROUP // 2, num_warps=4, num_stages=4
    )
    return y
