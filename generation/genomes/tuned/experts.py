# A layer of routed experts: slots are listed by expert in blocks of block_m rows, and each block takes one expert's matrices.
# Weights are the tall operand. With 4-bit weights, even and odd columns of the rows are put apart first (see int4.py).
# family experts_tuned for moe_layer
# family experts_fp8_tuned for moe_layer_fp8
# family experts_int4_tuned for moe_layer_int4
# let int4 = problem == "moe_layer_int4"
# let fp8 = problem == "moe_layer_fp8"
# let scales = "" if problem == "moe_layer" else "scale_ptr, "
# let names = "up, down" if problem == "moe_layer" else "up, up_scale, down, down_scale"
# let up_args = "up" if problem == "moe_layer" else "up, up_scale"
# let down_args = "down" if problem == "moe_layer" else "down, down_scale"
# pick block_m = 16, 32, 64, 128
# pick block_n = 32, 64, 128
# pick block_k = 32, 64, 128
# pick warps = 2, 4, 8
# pick stages = 2, 3, 4, 5
# refuse 2 * block_m * block_n > 6144 * warps: the sums of both matrices do not fit into the registers
# refuse block_n < 16 * warps and block_n != 64: warps without rows of their own

import torch
import triton
import triton.language as tl

%% macro add(sums, row)
%% if int4
        byte = tl.load(w_ptr + (${row} * half)[:, None] + k // 2 + rj[None, :]).to(tl.uint16)
        low = ((byte & 15) | 0x4300).to(tl.bfloat16, bitcast=True) - shift
        high = ((byte >> 4) | 0x4300).to(tl.bfloat16, bitcast=True) - shift
        scale = tl.load(scale_ptr + ${row} * (K // 128) + k // 128).to(tl.float32)
        both = tl.dot(low, even)
        both = tl.dot(high, odd, both)
        ${sums} += both * scale[:, None]
%% elif fp8
        w = tl.load(w_ptr + (${row} * K)[:, None] + k + rk[None, :]).to(tl.bfloat16)
        scale = tl.load(scale_ptr + ${row} // 128 * (K // 128) + k // 128)
        ${sums} += tl.dot(w, x) * scale[:, None]
%% else
        w = tl.load(w_ptr + (${row} * K)[:, None] + k + rk[None, :])
        ${sums} = tl.dot(w, x, ${sums})
%% endif
%% endmacro
%% macro rows(at)
%% if int4
        even = tl.trans(tl.load(${at} + k // 2 + rj[None, :], mask=known, other=0.0))
        odd = tl.trans(tl.load(${at} + half + k // 2 + rj[None, :], mask=known, other=0.0))
%% else
        x = tl.trans(tl.load(${at} + k + rk[None, :], mask=known, other=0.0))
%% endif
%% endmacro
%% macro columns()
%% if int4
    rj = tl.arange(0, BK // 2)
    half = K // 2
    shift = tl.full((1, 1), 136.0, dtype=tl.bfloat16)
%% else
    rk = tl.arange(0, BK)
%% endif
%% endmacro

%% if int4
<%% include "tuned/parts.py#apart" %%>
%% endif
@triton.jit
def slots_of(expert_ptr, slot_ptr, count_ptr, total, tokens, BLOCK: tl.constexpr):
    expert = tl.program_id(0)
    count = 0
    for start in range(0, total, BLOCK):
        slot = start + tl.arange(0, BLOCK)
        own = (tl.load(expert_ptr + slot, mask=slot < total, other=-1) == expert).to(tl.int32)
        tl.store(slot_ptr + expert * tokens + count + tl.cumsum(own, 0) - 1, slot, mask=own != 0)
        count += tl.sum(own, 0)
    tl.store(count_ptr + expert, count)


@triton.jit
def blocks_of(count_ptr, owner_ptr, experts, BM: tl.constexpr, EXPERTS: tl.constexpr):
    expert = tl.program_id(0)
    every = tl.arange(0, EXPERTS)
    blocks = tl.cdiv(tl.load(count_ptr + every, mask=every < experts, other=0), BM)
    first = tl.sum(tl.where(every < expert, blocks, 0), 0)
    own = tl.sum(tl.where(every == expert, blocks, 0), 0)
    tl.store(owner_ptr, tl.sum(blocks, 0))
    for block in range(own):
        tl.store(owner_ptr + 1 + 2 * (first + block), expert)
        tl.store(owner_ptr + 2 + 2 * (first + block), block)


@triton.jit
def raise_kernel(
    x_ptr, w_ptr, ${scales}owner_ptr, slot_ptr, count_ptr, h_ptr, N, K, tokens, chosen, blocks,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    block = tl.program_id(0) % blocks
    if block >= tl.load(owner_ptr):
        return
    expert = tl.load(owner_ptr + 1 + 2 * block).to(tl.int64)
    rm = tl.load(owner_ptr + 2 + 2 * block) * BM + tl.arange(0, BM)
    inside = rm < tl.load(count_ptr + expert)
    slot = tl.load(slot_ptr + expert * tokens + rm, mask=inside, other=0)
    rn = tl.program_id(0) // blocks * BN + tl.arange(0, BN)
    x_at = x_ptr + (slot // chosen)[:, None] * K
    gate_row = expert * 2 * N + rn
    known = inside[:, None]
    ${columns().strip()}
    gate = tl.zeros((BN, BM), dtype=tl.float32)
    up = tl.zeros((BN, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        ${rows("x_at").strip()}
        ${add("gate", "gate_row").strip()}
        ${add("up", "(gate_row + N)").strip()}
    h = tl.trans((gate * tl.sigmoid(gate) * up).to(tl.bfloat16))
    column = ${"rn % 2 * (N // 2) + rn // 2" if int4 else "rn"}
    tl.store(h_ptr + slot.to(tl.int64)[:, None] * N + column[None, :], h, mask=known)


@triton.jit
def lower_kernel(
    h_ptr, w_ptr, ${scales}share_ptr, owner_ptr, slot_ptr, count_ptr, part_ptr, N, K, tokens, blocks,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    block = tl.program_id(0) % blocks
    if block >= tl.load(owner_ptr):
        return
    expert = tl.load(owner_ptr + 1 + 2 * block).to(tl.int64)
    rm = tl.load(owner_ptr + 2 + 2 * block) * BM + tl.arange(0, BM)
    inside = rm < tl.load(count_ptr + expert)
    slot = tl.load(slot_ptr + expert * tokens + rm, mask=inside, other=0)
    rn = tl.program_id(0) // blocks * BN + tl.arange(0, BN)
    h_at = h_ptr + slot.to(tl.int64)[:, None] * K
    row = expert * N + rn
    known = inside[:, None]
    ${columns().strip()}
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        ${rows("h_at").strip()}
        ${add("acc", "row").strip()}
    share = tl.load(share_ptr + slot, mask=inside, other=0.0)
    out = tl.trans((acc * share[None, :]).to(tl.bfloat16))
    tl.store(part_ptr + slot.to(tl.int64)[:, None] * N + rn[None, :], out, mask=known)


@triton.jit
def combine(part_ptr, y_ptr, N, CHOSEN: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for j in tl.static_range(CHOSEN):
        total += tl.load(part_ptr + (token * CHOSEN + j) * N + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + token * N + n, total.to(tl.bfloat16), mask=n < N)


def run(x, experts, share, ${names}):
    tokens, hidden = x.shape
    chosen, count, n = experts.shape[1], up.shape[0], up.shape[1] // 2
    total = tokens * chosen
    blocks = min(total, total // ${block_m} + count)
    slots = torch.empty((count, tokens), dtype=torch.int32, device=x.device)
    counts = torch.empty((count,), dtype=torch.int32, device=x.device)
    owners = torch.empty((1 + 2 * blocks,), dtype=torch.int32, device=x.device)
    h = torch.empty((total, n), dtype=x.dtype, device=x.device)
    parts = torch.empty((total, hidden), dtype=x.dtype, device=x.device)
    y = torch.empty_like(x)
    slots_of[(count,)](experts, slots, counts, total, tokens, BLOCK=1024, num_warps=4)
    blocks_of[(count,)](counts, owners, count, BM=${block_m}, EXPERTS=triton.next_power_of_2(count), num_warps=1)
%% if int4
    rows = torch.empty_like(x)
    apart[(tokens, triton.cdiv(hidden // 2, 1024))](x, rows, hidden, BLOCK=1024, num_warps=4)
%% else
    rows = x
%% endif
    raise_kernel[(blocks * triton.cdiv(n, ${block_n}),)](
        rows, ${up_args}, owners, slots, counts, h, n, hidden, tokens, chosen, blocks,
        BM=${block_m}, BN=${block_n}, BK=${block_k}, num_warps=${warps}, num_stages=${stages},
    )
    lower_kernel[(blocks * triton.cdiv(hidden, ${block_n}),)](
        h, ${down_args}, share, owners, slots, counts, parts, hidden, n, tokens, blocks,
        BM=${block_m}, BN=${block_n}, BK=${block_k}, num_warps=${warps}, num_stages=${stages},
    )
    combine[(tokens, triton.cdiv(hidden, 1024))](parts, y, hidden, CHOSEN=chosen, BLOCK=1024, num_warps=4)
    return y
