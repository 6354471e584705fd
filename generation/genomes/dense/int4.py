# Products with packed 4-bit weights: tensor cores or plain lanes, and where nibbles become numbers.
# family int4_triton for int4_weight_gemm
# shape unpack = "halves", "interleave", "first"
# shape scaled = "weights", "sums"
# shape zero = "weights", "folded"
# shape swapped = False, True
# shape split_k = 1, 2, 4, 8, 16
# shape evict = "none", "first"
# pick block_n = 16, 32, 64, 128
# pick block_k = 64, 128
# pick warps = 2, 4, 8
# pick stages = 2, 3, 4, 5
# refuse zero == "folded" and scaled == "weights": a zero point folded into sums needs the sums unscaled
# refuse unpack == "first" and (scaled, zero) != ("weights", "weights"): weights unpacked first are already scaled
# refuse block_n * 16 // (32 * warps) < 4: too few sums per thread
# refuse block_n == 16 and swapped: a tile of sixteen by sixteen is its own transpose
# let weights = "w_ptr" if unpack == "first" else "packed_ptr, scale_ptr"
# let weight_args = "w" if unpack == "first" else "packed, scale"
# let span = "k_span, " if split_k != 1 else ""
# let evict = HINTS["first"] if evict == "first" else ""
# let shift = "" if zero == "folded" else " - 8.0"
# let carry = ", acc" if scaled == "weights" else ""

import torch
import triton
import triton.language as tl

%% if unpack == "first"

@triton.jit
def unpack(packed_ptr, scale_ptr, w_ptr, K, BLOCK: tl.constexpr):
    n = tl.program_id(0)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = j < K // 2
    byte = tl.load(packed_ptr + n * (K // 2) + j, mask=inside, other=0)
    scale = tl.load(scale_ptr + n * (K // 128) + j // 64, mask=inside, other=0.0).to(tl.float32)
    low = ((byte & 15).to(tl.float32) - 8.0) * scale
    high = ((byte >> 4).to(tl.float32) - 8.0) * scale
    w = tl.interleave(low, high).to(tl.float16)
    k = tl.program_id(1) * BLOCK * 2 + tl.arange(0, BLOCK * 2)
    tl.store(w_ptr + n * K + k, w, mask=k < K)

%% endif

@triton.jit
def product(x_ptr, ${weights}, y_ptr, M, N, K, ${span}BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(1) * 16 + tl.arange(0, 16)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
%% if split_k > 1
    part = tl.program_id(2)
    k_from = part * k_span
    k_to = tl.minimum(K, k_from + k_span)
%% else
    k_from = 0
    k_to = K
%% endif
    acc = tl.zeros((${"BN, 16" if swapped else "16, BN"}), dtype=tl.float32)
%% if unpack == "first"
    for k in range(k_from, k_to, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=rm[:, None] < M, other=0.0)
        w = tl.load(w_ptr + rn[:, None] * K + rk[None, :], mask=rn[:, None] < N, other=0.0${evict})
        acc = ${"tl.dot(w, tl.trans(x), acc)" if swapped else "tl.dot(x, tl.trans(w), acc)"}
%% else
    for k in range(k_from, k_to, BK):
        rj = k // 2 + tl.arange(0, BK // 2)
        byte = tl.load(packed_ptr + rn[:, None] * (K // 2) + rj[None, :], mask=rn[:, None] < N, other=0${evict})
        scale = tl.load(scale_ptr + rn * (K // 128) + k // 128, mask=rn < N, other=0.0)
%% if scaled == "weights"
        low = ((byte & 15).to(tl.float16)${shift}) * scale[:, None]
        high = ((byte >> 4).to(tl.float16)${shift}) * scale[:, None]
%% else
        low = (byte & 15).to(tl.float16)${shift}
        high = (byte >> 4).to(tl.float16)${shift}
%% endif
%% if unpack == "halves"
        even = tl.load(x_ptr + rm[:, None] * K + 2 * rj[None, :], mask=rm[:, None] < M, other=0.0)
        odd = tl.load(x_ptr + rm[:, None] * K + 2 * rj[None, :] + 1, mask=rm[:, None] < M, other=0.0)
%% if swapped
        s = tl.dot(low, tl.trans(even)${carry})
        s = tl.dot(high, tl.trans(odd), s)
%% else
        s = tl.dot(even, tl.trans(low)${carry})
        s = tl.dot(odd, tl.trans(high), s)
%% endif
%% if zero == "folded"
        count = tl.sum(even.to(tl.float32), 1) + tl.sum(odd.to(tl.float32), 1)
%% endif
%% else
        w = tl.interleave(low, high)
        x = tl.load(x_ptr + rm[:, None] * K + (k + tl.arange(0, BK))[None, :], mask=rm[:, None] < M, other=0.0)
        s = ${"tl.dot(w, tl.trans(x)" if swapped else "tl.dot(x, tl.trans(w)"}${carry})
%% if zero == "folded"
        count = tl.sum(x.to(tl.float32), 1)
%% endif
%% endif
%% if scaled == "weights"
        acc = s
%% elif swapped
        acc += ${"(s - 8.0 * count[None, :])" if zero == "folded" else "s"} * scale.to(tl.float32)[:, None]
%% else
        acc += ${"(s - 8.0 * count[:, None])" if zero == "folded" else "s"} * scale.to(tl.float32)[None, :]
%% endif
%% endif
%% if swapped
    acc = tl.trans(acc)
%% endif
    at = ${"part * M * N + " if split_k > 1 else ""}rm[:, None] * N + rn[None, :]
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))
%% if split_k > 1


@triton.jit
def join(part_ptr, y_ptr, SIZE, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(${split_k}):
        total += tl.load(part_ptr + part * SIZE + at, mask=at < SIZE, other=0.0)
    tl.store(y_ptr + at, total.to(tl.float16), mask=at < SIZE)
%% endif


def run(x, packed, scale):
    M, K = x.shape
    N = packed.shape[0]
    y = torch.empty((M, N), device=x.device, dtype=x.dtype)
%% if unpack == "first"
    w = torch.empty((N, K), device=x.device, dtype=x.dtype)
    unpack[(N, triton.cdiv(K // 2, 1024))](packed, scale, w, K, BLOCK=1024, num_warps=4)
%% endif
    grid = (triton.cdiv(N, ${block_n}), triton.cdiv(M, 16), ${split_k})
%% if split_k > 1
    k_span = triton.cdiv(triton.cdiv(K, ${split_k}), ${block_k}) * ${block_k}
    sums = torch.empty((${split_k}, M, N), device=x.device, dtype=torch.float32)
%% endif
    product[grid](
        x, ${weight_args}, ${"sums" if split_k > 1 else "y"}, M, N, K, ${span}
        BN=${block_n}, BK=${block_k}, num_warps=${warps}, num_stages=${stages},
    )
%% if split_k > 1
    join[(triton.cdiv(M * N, 1024),)](sums, y, M * N, BLOCK=1024, num_warps=4)
%% endif
    return y
