"""Native float8 dot products in 128 by 256 tiles, visited in groups of row blocks, scaled in registers."""

import torch
import triton
import triton.language as tl


@triton.jit
def float8_tiles(
    x_ptr, w_ptr, xs_ptr, ws_ptr, y_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    first = (pid // (GROUP * across)) * GROUP
    height = tl.minimum(tl.cdiv(M, BM) - first, GROUP)
    rm = (first + pid % (GROUP * across) % height) * BM + tl.arange(0, BM)
    rn = (pid % (GROUP * across) // height) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    x_at = x_ptr + (rm % M)[:, None] * K + rk[None, :]
    w_at = w_ptr + (rn % N)[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(x_at, mask=rk[None, :] < K - k, other=0.0)
        w = tl.load(w_at, mask=rk[:, None] < K - k, other=0.0)
        acc = tl.dot(x, w, acc)
        x_at += BK
        w_at += BK
    row_scale = tl.load(xs_ptr + rm, mask=rm < M, other=0.0)
    col_scale = tl.load(ws_ptr + rn, mask=rn < N, other=0.0)
    v = acc * row_scale[:, None] * col_scale[None, :]
    out = y_ptr + rm[:, None] * N + rn[None, :]
    tl.store(out, v.to(y_ptr.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, weight, x_scale, weight_scale):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(m, 128) * triton.cdiv(n, 256),)
    float8_tiles[grid](
        x, weight, x_scale, weight_scale, y, m, n, k, BM=128, BN=256, BK=128, GROUP=8, num_warps=8, num_stages=3
    )
    return y
