# Products of sorted rows with the matrix of their expert: a program finds the expert of its block of rows from the offsets.
# family grouped_swiglu_tuned for moe_swiglu_up
# family grouped_down_tuned for moe_weighted_down
# family grouped_fp8_tuned for grouped_fp8_linear
# let gated = problem == "moe_swiglu_up"
# let fp8 = problem == "grouped_fp8_linear"
# let rest = {"moe_swiglu_up": "", "moe_weighted_down": "row_weight, ", "grouped_fp8_linear": "x_scale, weight_scale, "}[problem]
# pick block_m = 16, 32, 64, 128
# pick block_n = 32, 64, 128, 256
# pick block_k = (64, 128) if fp8 else (32, 64, 128)
# pick group = 1, 4, 16
# pick warps = 4, 8
# pick stages = 2, 3, 4
# refuse (2 if gated else 1) * block_m * block_n > 8192 * warps: more than 256 sums per thread
# refuse block_m * block_n < 256 * warps: fewer than eight sums per thread

import torch
import triton
import triton.language as tl


<%% include "tuned/parts.py#order" %%>
@triton.jit
def product(
    x_ptr, weight_ptr, offset_ptr, ${rest.replace(", ", "_ptr, ")}y_ptr, blocks, N, K, experts,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, EXPERTS: tl.constexpr, EVEN: tl.constexpr,
):
    block, column = place(tl.program_id(0), blocks * BM, N, BM, BN, GROUP)
    every = tl.arange(0, EXPERTS)
    ends = tl.load(offset_ptr + every, mask=every < experts, other=0)
    starts = tl.load(offset_ptr + every - 1, mask=(every > 0) & (every < experts), other=0)
    sizes = tl.where(every < experts, tl.cdiv(ends - starts, BM), 0)
    lasts = tl.cumsum(sizes, 0)
    expert = tl.sum((lasts <= block).to(tl.int32), 0)
    if expert >= experts:
        return
    own = every == expert
    end = tl.sum(tl.where(own, ends, 0), 0)
    first = tl.sum(tl.where(own, starts + (block - lasts + sizes) * BM, 0), 0)
    rm = first + tl.arange(0, BM)
    rn = column * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    bn = rn % N
    x_at = x_ptr + tl.minimum(rm, end - 1)[:, None] * K + rk[None, :]
%% if fp8
    w_at = weight_ptr + expert.to(tl.int64) * N * K + bn[:, None] * K + rk[None, :]
%% else
    w_at = weight_ptr + expert.to(tl.int64) * K * N * ${2 if gated else 1} + rk[:, None] * N * ${2 if gated else 1} + bn[None, :]
%% endif
    acc = tl.zeros((BM, BN), dtype=tl.float32)
%% if gated
    up = tl.zeros((BM, BN), dtype=tl.float32)
%% endif
    for k in range(0, K, BK):
        x = tl.load(x_at) if EVEN else tl.load(x_at, mask=(rk < K - k)[None, :], other=0.0)
%% if fp8
        w = tl.load(w_at) if EVEN else tl.load(w_at, mask=(rk < K - k)[None, :], other=0.0)
        acc = tl.dot(x, tl.trans(w), acc)
        w_at += BK
%% else
        w = tl.load(w_at) if EVEN else tl.load(w_at, mask=(rk < K - k)[:, None], other=0.0)
        acc = tl.dot(x, w, acc)
%% if gated
        u = tl.load(w_at + N) if EVEN else tl.load(w_at + N, mask=(rk < K - k)[:, None], other=0.0)
        up = tl.dot(x, u, up)
%% endif
        w_at += BK * N * ${2 if gated else 1}
%% endif
        x_at += BK
%% if gated
    y = acc * tl.sigmoid(acc) * up
%% elif fp8
    left = tl.load(x_scale_ptr + rm, mask=rm < end, other=0.0)
    right = tl.load(weight_scale_ptr + expert * N + rn, mask=rn < N, other=0.0)
    y = acc * left[:, None] * right[None, :]
%% else
    y = acc * tl.load(row_weight_ptr + rm, mask=rm < end, other=0.0).to(tl.float32)[:, None]
%% endif
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], y.to(tl.bfloat16), mask=(rm < end)[:, None] & (rn < N)[None, :])


def run(x, weight, offsets${(", " + rest).rstrip(", ")}):
    (rows, K), experts = x.shape, weight.shape[0]
    N = ${"weight.shape[1]" if fp8 else "weight.shape[2] // 2" if gated else "weight.shape[2]"}
    y = torch.empty((rows, N), dtype=torch.bfloat16, device=x.device)
    blocks = min(rows, rows // ${block_m} + experts)
    product[(blocks * triton.cdiv(N, ${block_n}),)](
        x, weight, offsets, ${rest}y, blocks, N, K, experts, BM=${block_m}, BN=${block_n}, BK=${block_k}, GROUP=${group},
        EXPERTS=triton.next_power_of_2(experts), EVEN=K % ${block_k} == 0, num_warps=${warps}, num_stages=${stages},
    )
    return y
