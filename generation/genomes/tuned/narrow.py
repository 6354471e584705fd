# Few rows of x against narrow weights: weights are the tall operand of the tensor cores, rows of x the narrow one, and the
# sum over k may be split over programs.
# family decode_bf16_tuned for linear_decode_bf16
# family decode_int8_tuned for int8_weight_linear
# family decode_fp8_tuned for fp8_weight_linear
# family decode_int8_swiglu_tuned for int8_weight_swiglu
# let gated = problem == "int8_weight_swiglu"
# let scaled = problem != "linear_decode_bf16"
# let names = "gate, up, gate_scale, up_scale" if gated else "weight, scale" if scaled else "weight"
# let zero = "0" if "int8" in problem else "0.0"
# let split = 1
# pick block_m = 16, 32, 64, 128
# pick block_n = 32, 64, 128
# pick block_k = 64, 128, 256
# pick split = () if gated else (1, 2, 4, 8)
# pick warps = 2, 4, 8
# pick stages = 2, 3, 4, 5
# refuse block_m * block_n > 4096 * warps: more than 128 sums per thread
# refuse block_n < 16 * warps and block_n != 64: warps without rows of their own

import torch
import triton
import triton.language as tl


%% if split > 1
<%% include "tuned/parts.py#join" %%>
%% endif
@triton.jit
def product(
    x_ptr, ${names.replace(",", "_ptr,")}_ptr, y_ptr, M, N, K, span,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr,
):
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    part = tl.program_id(2)
    rk = tl.arange(0, BK)
    first = part * span
    last = tl.minimum(K, first + span)
    x_at = (rm % M)[:, None] * K + first + rk[None, :]
    w_at = (rn % N)[:, None] * K + first + rk[None, :]
    acc = tl.zeros((BN, BM), dtype=tl.float32)
%% if gated
    other = tl.zeros((BN, BM), dtype=tl.float32)
%% endif
    for k in range(first, last, BK):
        known = (rk < last - k)[None, :]
        x = tl.trans(tl.load(x_ptr + x_at) if EVEN else tl.load(x_ptr + x_at, mask=known, other=0.0))
%% for name, sums in ((("gate", "acc"), ("up", "other")) if gated else (("weight", "acc"),))
        ${name} = tl.load(${name}_ptr + w_at) if EVEN else tl.load(${name}_ptr + w_at, mask=known, other=${zero})
        ${sums} = tl.dot(${name}.to(tl.bfloat16), x, ${sums})
%% endfor
        x_at += BK
        w_at += BK
%% if gated
    gate = acc * tl.load(gate_scale_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[:, None]
    up = other * tl.load(up_scale_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[:, None]
    acc = gate * tl.sigmoid(gate) * up
%% elif scaled
    acc *= tl.load(scale_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[:, None]
%% endif
    at = part * M * N + rm[:, None] * N + rn[None, :]
    y = tl.trans(acc).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + at, y, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, ${names}):
    (M, K), N = x.shape, ${"gate" if gated else "weight"}.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    span = triton.cdiv(triton.cdiv(K, ${split}), ${block_k}) * ${block_k}
    sums = ${"torch.empty((%d, M, N), dtype=torch.float32, device=x.device)" % split if split > 1 else "y"}
    product[(triton.cdiv(N, ${block_n}), triton.cdiv(M, ${block_m}), ${split})](
        x, ${names}, sums, M, N, K, span, BM=${block_m}, BN=${block_n}, BK=${block_k},
        EVEN=K % ${block_k} == 0, num_warps=${warps}, num_stages=${stages},
    )
%% if split > 1
    join[(triton.cdiv(M * N, 1024),)](sums, y, M * N, SPLIT=${split}, BLOCK=1024, num_warps=4)
%% endif
    return y
