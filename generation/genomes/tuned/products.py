# Products of two matrices in tiles, tiles in groups of rows so that neighbours share operands in the second-level cache.
# family linear_residual_tuned for linear_residual_bf16
# family linear_fp8_tuned for fp8_linear_rowwise
# family linear_int8_tuned for int8_linear_relu
# family linear_dgrad_tuned for linear_dgrad
# family linear_wgrad_tuned for linear_wgrad_accumulate
# let arguments = {"linear_residual_bf16": "x, weight, residual", "fp8_linear_rowwise": "x, weight, x_scale, weight_scale",
#     "int8_linear_relu": "x, weight, x_scale, weight_scale, bias", "linear_dgrad": "dy, weight",
#     "linear_wgrad_accumulate": "dy, x, grad"}[problem]
# let rest = {"linear_residual_bf16": "residual, ", "fp8_linear_rowwise": "x_scale, weight_scale, ",
#     "int8_linear_relu": "x_scale, weight_scale, bias, ", "linear_dgrad": "", "linear_wgrad_accumulate": "grad, "}[problem]
# let scaled = problem in ("fp8_linear_rowwise", "int8_linear_relu")
# let kind = {"int8_linear_relu": "int32"}.get(problem, "float32")
# let zero = "0" if kind == "int32" else "0.0"
# let out = {"int8_linear_relu": "float16", "linear_wgrad_accumulate": "float32"}.get(problem, "bfloat16")
# pick block_m = 16, 32, 64, 128, 256
# pick block_n = 32, 64, 128, 256
# pick block_k = (64, 128, 256) if scaled else (32, 64, 128)
# pick group = 1, 4, 8, 16
# pick warps = 4, 8
# pick stages = 2, 3, 4, 5
# refuse block_m * block_n > 8192 * warps: more than 256 sums per thread
# refuse block_m * block_n < 256 * warps: fewer than eight sums per thread

import torch
import triton
import triton.language as tl


<%% include "tuned/parts.py#order" %%>
@triton.jit
def product(
    a_ptr, b_ptr, ${rest.replace(", ", "_ptr, ")}y_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, EVEN: tl.constexpr,
):
    row, column = place(tl.program_id(0), M, N, BM, BN, GROUP)
    rm = row * BM + tl.arange(0, BM)
    rn = column * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    am, bn = rm % M, rn % N
%% if problem == "linear_wgrad_accumulate"
    a_at = a_ptr + rk[:, None] * M + am[None, :]
%% else
    a_at = a_ptr + am[:, None] * K + rk[None, :]
%% endif
%% if problem in ("linear_dgrad", "linear_wgrad_accumulate")
    b_at = b_ptr + rk[:, None] * N + bn[None, :]
%% else
    b_at = b_ptr + bn[:, None] * K + rk[None, :]
%% endif
    acc = tl.zeros((BM, BN), dtype=tl.${kind})
    for k in range(0, K, BK):
%% if problem == "linear_wgrad_accumulate"
        a = tl.load(a_at) if EVEN else tl.load(a_at, mask=(rk < K - k)[:, None], other=0.0)
        b = tl.load(b_at) if EVEN else tl.load(b_at, mask=(rk < K - k)[:, None], other=0.0)
        acc = tl.dot(tl.trans(a), b, acc)
        a_at += BK * M
        b_at += BK * N
%% elif problem == "linear_dgrad"
        a = tl.load(a_at) if EVEN else tl.load(a_at, mask=(rk < K - k)[None, :], other=0.0)
        b = tl.load(b_at) if EVEN else tl.load(b_at, mask=(rk < K - k)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += BK
        b_at += BK * N
%% else
        a = tl.load(a_at) if EVEN else tl.load(a_at, mask=(rk < K - k)[None, :], other=${zero})
        b = tl.load(b_at) if EVEN else tl.load(b_at, mask=(rk < K - k)[None, :], other=${zero})
        acc = tl.dot(a, tl.trans(b), acc${", out_dtype=tl.int32" if kind == "int32" else ""})
        a_at += BK
        b_at += BK
%% endif
    at = rm[:, None] * N + rn[None, :]
    inside = (rm < M)[:, None] & (rn < N)[None, :]
%% if scaled
    left = tl.load(x_scale_ptr + rm, mask=rm < M, other=0.0)
    right = tl.load(weight_scale_ptr + rn, mask=rn < N, other=0.0)
    y = acc.to(tl.float32) * left[:, None] * right[None, :]
%% if problem == "int8_linear_relu"
    y = tl.maximum(y + tl.load(bias_ptr + rn, mask=rn < N, other=0.0)[None, :], 0.0)
%% endif
%% elif rest
    y = acc + tl.load(${rest.replace(", ", "_ptr")} + at, mask=inside, other=0.0).to(tl.float32)
%% else
    y = acc
%% endif
    tl.store(y_ptr + at, y.to(tl.${out}), mask=inside)


def run(${arguments}):
%% if problem == "linear_wgrad_accumulate"
    a, b = dy, x
    (K, M), N = dy.shape, x.shape[1]
%% elif problem == "linear_dgrad"
    a, b = dy, weight
    (M, K), N = dy.shape, weight.shape[1]
%% else
    a, b = x, weight
    (M, K), N = x.shape, weight.shape[0]
%% endif
    y = torch.empty((M, N), dtype=torch.${out}, device=a.device)
    product[(triton.cdiv(M, ${block_m}) * triton.cdiv(N, ${block_n}),)](
        a, b, ${rest}y, M, N, K, BM=${block_m}, BN=${block_n}, BK=${block_k}, GROUP=${group},
        EVEN=K % ${block_k} == 0, num_warps=${warps}, num_stages=${stages},
    )
    return y
