# Products of float8 operands with a scale per 128 elements of k: sums of one block are scaled before they are added.
# family block_scaled_tuned for fp8_linear_blockwise
# family block_decode_tuned for fp8_block_decode
# let split = 1
# pick block_m = 16, 32, 64, 128
# pick block_n = 32, 64, 128
# pick block_k = 64, 128
# pick group = 1, 4, 8, 16
# pick split = (1, 2, 4, 8) if problem == "fp8_block_decode" else ()
# pick warps = 4, 8
# pick stages = 2, 3, 4, 5
# refuse block_m * block_n > 4096 * warps: more than 128 sums per thread, and as many again per block
# refuse block_m * block_n < 256 * warps: fewer than eight sums per thread

import torch
import triton
import triton.language as tl


<%% include "tuned/parts.py#order" %%>
%% if split > 1
<%% include "tuned/parts.py#join" %%>
%% endif
@triton.jit
def product(
    x_ptr, weight_ptr, x_scale_ptr, weight_scale_ptr, y_ptr, M, N, K, span,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):
    row, column = place(tl.program_id(0), M, N, BM, BN, GROUP)
    part = tl.program_id(1)
    rm = row * BM + tl.arange(0, BM)
    rn = column * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    am, bn = rm % M, rn % N
    x_at = x_ptr + am[:, None] * K + rk[None, :]
    w_at = weight_ptr + bn[:, None] * K + rk[None, :]
    left_at = x_scale_ptr + am * (K // 128)
    right_at = weight_scale_ptr + (column * BN // 128) * (K // 128)
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    for k in range(part * span, tl.minimum(K, (part + 1) * span), BK):
        x = tl.load(x_at + k)
        w = tl.load(w_at + k)
        scale = tl.load(left_at + k // 128) * tl.load(right_at + k // 128)
        acc += tl.dot(w, tl.trans(x)) * scale[None, :]
    at = part * M * N + rm[:, None] * N + rn[None, :]
    y = tl.trans(acc).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + at, y, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, weight, x_scale, weight_scale):
    (M, K), N = x.shape, weight.shape[0]
    y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
    span = triton.cdiv(triton.cdiv(K, ${split}), 128) * 128
    sums = ${"torch.empty((%d, M, N), dtype=torch.float32, device=x.device)" % split if split > 1 else "y"}
    product[(triton.cdiv(M, ${block_m}) * triton.cdiv(N, ${block_n}), ${split})](
        x, weight, x_scale, weight_scale, sums, M, N, K, span,
        BM=${block_m}, BN=${block_n}, BK=${block_k}, GROUP=${group}, num_warps=${warps}, num_stages=${stages},
    )
%% if split > 1
    join[(triton.cdiv(M * N, 1024),)](sums, y, M * N, SPLIT=${split}, BLOCK=1024, num_warps=4)
%% endif
    return y
