# Few rows of x against 4-bit weights with zero points. Even and odd columns of x are put apart first, so that low and high
# nibbles multiply them without being interleaved; 0x4300 in the upper bits makes a nibble the bfloat16 number 128 + nibble.
# family decode_int4_tuned for int4_zero_point_linear
# pick block_m = 16, 32, 64, 128
# pick block_n = 32, 64, 128
# pick block_k = 64, 128
# pick split = 1, 2, 4, 8
# pick warps = 2, 4, 8
# pick stages = 2, 3, 4, 5
# refuse block_m * block_n > 4096 * warps: more than 128 sums per thread
# refuse block_n < 16 * warps and block_n != 64: warps without rows of their own

import torch
import triton
import triton.language as tl


<%% include "tuned/parts.py#apart" %%>
%% if split > 1
<%% include "tuned/parts.py#join" %%>
%% endif
@triton.jit
def product(
    x_ptr, packed_ptr, scale_ptr, zero_ptr, y_ptr, M, N, K, span, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    part = tl.program_id(2)
    rj = tl.arange(0, BK // 2)
    half = K // 2
    bn = rn % N
    x_at = x_ptr + (rm % M)[:, None] * K + rj[None, :]
    w_at = packed_ptr + bn[:, None] * half + rj[None, :]
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    for k in range(part * span, tl.minimum(K, (part + 1) * span), BK):
        byte = tl.load(w_at + k // 2).to(tl.uint16)
        even = tl.load(x_at + k // 2)
        odd = tl.load(x_at + half + k // 2)
        scale = tl.load(scale_ptr + bn * (K // 128) + k // 128).to(tl.float32)
        shift = (tl.load(zero_ptr + bn * (K // 128) + k // 128).to(tl.float32) + 128.0).to(tl.bfloat16)
        low = ((byte & 15) | 0x4300).to(tl.bfloat16, bitcast=True) - shift[:, None]
        high = ((byte >> 4) | 0x4300).to(tl.bfloat16, bitcast=True) - shift[:, None]
        sums = tl.dot(low, tl.trans(even))
        sums = tl.dot(high, tl.trans(odd), sums)
        acc += sums * scale[:, None]
    at = part * M * N + rm[:, None] * N + rn[None, :]
    y = tl.trans(acc).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + at, y, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, packed, scale, zero):
    (M, K), N = x.shape, packed.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    halves = torch.empty_like(x)
    apart[(M, triton.cdiv(K // 2, 1024))](x, halves, K, BLOCK=1024, num_warps=4)
    span = triton.cdiv(triton.cdiv(K, ${split}), 128) * 128
    sums = ${"torch.empty((%d, M, N), dtype=torch.float32, device=x.device)" % split if split > 1 else "y"}
    product[(triton.cdiv(N, ${block_n}), triton.cdiv(M, ${block_m}), ${split})](
        halves, packed, scale, zero, sums, M, N, K, span, BM=${block_m}, BN=${block_n}, BK=${block_k},
        num_warps=${warps}, num_stages=${stages},
    )
%% if split > 1
    join[(triton.cdiv(M * N, 1024),)](sums, y, M * N, SPLIT=${split}, BLOCK=1024, num_warps=4)
%% endif
    return y
