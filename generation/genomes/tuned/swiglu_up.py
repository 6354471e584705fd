# A gated layer's two products at once: one tile of x serves the gate and the input.
# family swiglu_up_tuned for swiglu_up_bf16
# pick block_m = 16, 32, 64, 128
# pick block_n = 32, 64, 128
# pick block_k = 32, 64, 128
# pick group = 1, 4, 8, 16
# pick warps = 4, 8
# pick stages = 2, 3, 4
# refuse 2 * block_m * block_n > 8192 * warps: more than 256 sums per thread

import torch
import triton
import triton.language as tl


<%% include "tuned/parts.py#order" %%>
@triton.jit
def swiglu(
    x_ptr, gate_ptr, up_ptr, y_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, EVEN: tl.constexpr,
):
    row, column = place(tl.program_id(0), M, N, BM, BN, GROUP)
    rm = row * BM + tl.arange(0, BM)
    rn = column * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    x_at = x_ptr + (rm % M)[:, None] * K + rk[None, :]
    w_at = (rn % N)[:, None] * K + rk[None, :]
    gate = tl.zeros((BM, BN), dtype=tl.float32)
    up = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        known = (rk < K - k)[None, :]
        x = tl.load(x_at) if EVEN else tl.load(x_at, mask=known, other=0.0)
        g = tl.load(gate_ptr + w_at) if EVEN else tl.load(gate_ptr + w_at, mask=known, other=0.0)
        u = tl.load(up_ptr + w_at) if EVEN else tl.load(up_ptr + w_at, mask=known, other=0.0)
        gate = tl.dot(x, tl.trans(g), gate)
        up = tl.dot(x, tl.trans(u), up)
        x_at += BK
        w_at += BK
    y = gate * tl.sigmoid(gate) * up
    inside = (rm < M)[:, None] & (rn < N)[None, :]
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], y.to(tl.bfloat16), mask=inside)


def run(x, gate_weight, up_weight):
    (M, K), N = x.shape, gate_weight.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    swiglu[(triton.cdiv(M, ${block_m}) * triton.cdiv(N, ${block_n}),)](
        x, gate_weight, up_weight, y, M, N, K, BM=${block_m}, BN=${block_n}, BK=${block_k}, GROUP=${group},
        EVEN=K % ${block_k} == 0, num_warps=${warps}, num_stages=${stages},
    )
    return y
