"""Two halves of the inner dimension meet in float32 logits by atomics; a program holds a whole row for the softmax."""

import torch
import triton
import triton.language as tl


@triton.jit
def half_product(x_ptr, w_ptr, z_ptr, M, N, K, span, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    begin = tl.program_id(2) * span
    end = tl.minimum(begin + span, K)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(begin, end, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < end)[None, :], other=0.0)
        w = tl.load(w_ptr + rn[None, :] * K + rk[:, None], mask=(rn < N)[None, :] & (rk < end)[:, None], other=0.0)
        acc = tl.dot(x, w, acc)
    tl.atomic_add(z_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def row_softmax(z_ptr, b_ptr, y_ptr, N, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0) * N + c
    v = tl.load(z_ptr + at, mask=c < N, other=0.0) + tl.load(b_ptr + c, mask=c < N, other=0.0).to(tl.float32)
    v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    v = tl.where(c < N, v, float("-inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y_ptr + at, (e / tl.sum(e, axis=0)).to(y_ptr.dtype.element_ty), mask=c < N)


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    z = torch.zeros((m, n), device=x.device, dtype=torch.float32)
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 128), 2)
    half_product[grid](x, weight, z, m, n, k, triton.cdiv(k, 2), BM=64, BN=128, BK=64, num_warps=4, num_stages=3)
    row_softmax[(m,)](z, bias, y, n, BLOCK=triton.next_power_of_2(n), num_warps=8)
    return y
