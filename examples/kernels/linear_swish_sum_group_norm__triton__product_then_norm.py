"""The product leaves swished sums in an fp32 workspace; a second kernel normalises whole rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(x_ptr, w_ptr, bias_ptr, added_ptr, v_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0)):
        rm = (tile // tiles_n * BM + tl.arange(0, BM)).to(tl.int64)
        rn = tile % tiles_n * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
            w = tl.load(w_ptr + rn[None, :] * K + rk[:, None], mask=(rn < N)[None, :] & (rk < K)[:, None], other=0.0)
            acc = tl.dot(x, w, acc)
        v = acc + tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
        v = v / (1.0 + tl.exp(-v)) + tl.load(added_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
        tl.store(v_ptr + rm[:, None] * N + rn[None, :], v, mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def norm(v_ptr, gamma_ptr, beta_ptr, y_ptr, N, GROUPS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, GROUPS)[:, None] * 32 + tl.arange(0, 32)[None, :]
    inside = col < N
    v = tl.load(v_ptr + row * N + col, mask=inside, other=0.0)
    d = v - (tl.sum(v, axis=1) * (1.0 / 32.0))[:, None]
    spread = tl.sum(d * d, axis=1) * (1.0 / 32.0)
    gamma = tl.load(gamma_ptr + col, mask=inside, other=0.0).to(tl.float32)
    beta = tl.load(beta_ptr + col, mask=inside, other=0.0).to(tl.float32)
    out = d * tl.rsqrt(spread + 1e-5)[:, None] * gamma + beta
    tl.store(y_ptr + row * N + col, out.to(tl.bfloat16), mask=inside)


def run(x, weight, bias, added, gamma, beta):
    m, k = x.shape
    n = weight.shape[0]
    v = torch.empty((m, n), device=x.device, dtype=torch.float32)
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    tiles = triton.cdiv(m, 128) * triton.cdiv(n, 256)
    product[(min(tiles, 132),)](x, weight, bias, added, v, m, n, k, BM=128, BN=256, BK=64, num_warps=8, num_stages=3)
    norm[(m,)](v, gamma, beta, y, n, GROUPS=triton.next_power_of_2(n // 32), num_warps=4)
    return y
