# The triangle multiplicative update: normalise and project, multiply, project back.
# family triangle_triton for trimul
# shape stats = "inside", "separate"
# shape fusion = "together", "apart"
# shape storage = "float32", "bfloat16"
# shape order = "rows", "columns"
# shape turned = True, False
# pick rows = 32, 64, 128
# pick channels = 16, 32, 64
# pick side = 32, 64, 128
# pick back = 16, 32, 64
# pick stages = 2, 3
# pick warps = 4, 8
# let sums = 5 if fusion == "together" else 2
# refuse rows * channels * sums > 32 * warps * 96: too many sums per thread

import torch
import triton
import triton.language as tl


%% set kept = "tl.bfloat16" if storage == "bfloat16" else "tl.float32"
%% if stats == "separate"
@triton.jit
def stats_kernel(x_ptr, mean_ptr, scale_ptr, pairs, dim, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), tl.float32)
    squares = tl.zeros((ROWS,), tl.float32)
    for start in range(0, dim, BLOCK):
        col = start + tl.arange(0, BLOCK)
        inside = (row < pairs)[:, None] & (col < dim)[None, :]
        x = tl.load(x_ptr + row.to(tl.int64)[:, None] * dim + col[None, :], mask=inside, other=0.0)
        total += tl.sum(x, 1)
        squares += tl.sum(x * x, 1)
    mean = total / dim
    tl.store(mean_ptr + row, mean, mask=row < pairs)
    tl.store(scale_ptr + row, tl.rsqrt(squares / dim - mean * mean + 1.0e-5), mask=row < pairs)


%% endif
@triton.jit
def weight_block(weight_ptr, channel, col, dim):
    return tl.load(weight_ptr + channel[None, :] * dim + col[:, None], mask=(col < dim)[:, None], other=0.0)


@triton.jit
def project_kernel(x_ptr, mask_ptr, mean_ptr, scale_ptr, norm_weight_ptr, norm_bias_ptr, left_ptr, right_ptr,
                   left_gate_ptr, right_gate_ptr, out_gate_ptr, lefts_ptr, rights_ptr, gates_ptr, pairs, square, dim,
                   ROWS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    known = row < pairs
%% if stats == "separate"
    mean = tl.load(mean_ptr + row, mask=known, other=0.0)
    scale = tl.load(scale_ptr + row, mask=known, other=0.0)
%% else
    total = tl.zeros((ROWS,), tl.float32)
    squares = tl.zeros((ROWS,), tl.float32)
    for start in range(0, dim, BLOCK):
        col = start + tl.arange(0, BLOCK)
        inside = known[:, None] & (col < dim)[None, :]
        x = tl.load(x_ptr + row.to(tl.int64)[:, None] * dim + col[None, :], mask=inside, other=0.0)
        total += tl.sum(x, 1)
        squares += tl.sum(x * x, 1)
    mean = total / dim
    scale = tl.rsqrt(squares / dim - mean * mean + 1.0e-5)
%% endif
    left = tl.zeros((ROWS, CHANNELS), tl.float32)
    left_gate = tl.zeros((ROWS, CHANNELS), tl.float32)
%% if fusion == "together"
    right = tl.zeros((ROWS, CHANNELS), tl.float32)
    right_gate = tl.zeros((ROWS, CHANNELS), tl.float32)
    out_gate = tl.zeros((ROWS, CHANNELS), tl.float32)
%% else
    side = tl.program_id(2)
    if side == 1:
        left_ptr = right_ptr
        left_gate_ptr = right_gate_ptr
        lefts_ptr = rights_ptr
%% endif
    for start in range(0, dim, BLOCK):
        col = start + tl.arange(0, BLOCK)
        inside = known[:, None] & (col < dim)[None, :]
        x = tl.load(x_ptr + row.to(tl.int64)[:, None] * dim + col[None, :], mask=inside, other=0.0)
        gain = tl.load(norm_weight_ptr + col, mask=col < dim, other=0.0)
        bias = tl.load(norm_bias_ptr + col, mask=col < dim, other=0.0)
        x = (x - mean[:, None]) * scale[:, None] * gain[None, :] + bias[None, :]
%% if fusion == "together"
        left += tl.dot(x, weight_block(left_ptr, channel, col, dim), input_precision="tf32")
        left_gate += tl.dot(x, weight_block(left_gate_ptr, channel, col, dim), input_precision="tf32")
        right += tl.dot(x, weight_block(right_ptr, channel, col, dim), input_precision="tf32")
        right_gate += tl.dot(x, weight_block(right_gate_ptr, channel, col, dim), input_precision="tf32")
        out_gate += tl.dot(x, weight_block(out_gate_ptr, channel, col, dim), input_precision="tf32")
%% else
        if side == 2:
            left_gate += tl.dot(x, weight_block(out_gate_ptr, channel, col, dim), input_precision="tf32")
        else:
            left += tl.dot(x, weight_block(left_ptr, channel, col, dim), input_precision="tf32")
            left_gate += tl.dot(x, weight_block(left_gate_ptr, channel, col, dim), input_precision="tf32")
%% endif
    use = tl.load(mask_ptr + row, mask=known, other=0.0)[:, None]
    batch = (row // square).to(tl.int64)[:, None]
    place = (batch * 128 + channel[None, :]) * square + (row % square)[:, None]
    flat = row.to(tl.int64)[:, None] * 128 + channel[None, :]
%% if fusion == "together"
    tl.store(lefts_ptr + place, (left * use * tl.sigmoid(left_gate)).to(${kept}), mask=known[:, None])
    tl.store(rights_ptr + place, (right * use * tl.sigmoid(right_gate)).to(${kept}), mask=known[:, None])
    tl.store(gates_ptr + flat, tl.sigmoid(out_gate).to(${kept}), mask=known[:, None])
%% else
    if side == 2:
        tl.store(gates_ptr + flat, tl.sigmoid(left_gate).to(${kept}), mask=known[:, None])
    else:
        tl.store(lefts_ptr + place, (left * use * tl.sigmoid(left_gate)).to(${kept}), mask=known[:, None])
%% endif


@triton.jit
def multiply_kernel(lefts_ptr, rights_ptr, products_ptr, length, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    slab = tl.program_id(1).to(tl.int64) * length * length
    tiles = tl.cdiv(length, SIDE)
%% if order == "rows"
    row = (tl.program_id(0) // tiles) * SIDE + tl.arange(0, SIDE)
    col = (tl.program_id(0) % tiles) * SIDE + tl.arange(0, SIDE)
%% else
    row = (tl.program_id(0) % tiles) * SIDE + tl.arange(0, SIDE)
    col = (tl.program_id(0) // tiles) * SIDE + tl.arange(0, SIDE)
%% endif
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, length, BLOCK):
        k = start + tl.arange(0, BLOCK)
        near = (row < length)[:, None] & (k < length)[None, :]
        left = tl.load(lefts_ptr + slab + row[:, None] * length + k[None, :], mask=near, other=0.0)
%% if turned
        far = (k < length)[:, None] & (col < length)[None, :]
        right = tl.load(rights_ptr + slab + col[None, :] * length + k[:, None], mask=far, other=0.0)
%% else
        far = (col < length)[:, None] & (k < length)[None, :]
        right = tl.trans(tl.load(rights_ptr + slab + col[:, None] * length + k[None, :], mask=far, other=0.0))
%% endif
        total += tl.dot(left, right, input_precision="tf32")
    inside = (row < length)[:, None] & (col < length)[None, :]
    tl.store(products_ptr + slab + row[:, None] * length + col[None, :], total, mask=inside)


@triton.jit
def back_kernel(products_ptr, gates_ptr, norm_weight_ptr, norm_bias_ptr, weight_ptr, out_ptr, pairs, square, dim,
                ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    known = (row < pairs)[:, None]
    channel = tl.arange(0, 128)
    batch = (row // square).to(tl.int64)[:, None]
    place = (batch * 128 + channel[None, :]) * square + (row % square)[:, None]
    value = tl.load(products_ptr + place, mask=known, other=0.0)
    mean = tl.sum(value, 1) / 128.0
    value = value - mean[:, None]
    scale = tl.rsqrt(tl.sum(value * value, 1) / 128.0 + 1.0e-5)
    gain = tl.load(norm_weight_ptr + channel)
    bias = tl.load(norm_bias_ptr + channel)
    gate = tl.load(gates_ptr + row.to(tl.int64)[:, None] * 128 + channel[None, :], mask=known, other=0.0)
    value = (value * scale[:, None] * gain[None, :] + bias[None, :]) * gate.to(tl.float32)
    for start in range(0, dim, COLS):
        col = start + tl.arange(0, COLS)
        weight = tl.load(weight_ptr + col[None, :] * 128 + channel[:, None], mask=(col < dim)[None, :], other=0.0)
        result = tl.dot(value, weight, input_precision="tf32")
        tl.store(out_ptr + row.to(tl.int64)[:, None] * dim + col[None, :], result, mask=known & (col < dim)[None, :])


def run(x, mask, norm_weight, norm_bias, left_weight, right_weight, left_gate_weight, right_gate_weight,
        out_gate_weight, out_norm_weight, out_norm_bias, out_weight):
    batch, length, dim = x.shape[0], x.shape[1], x.shape[3]
    square = length * length
    pairs = batch * square
    lefts = torch.empty((batch, 128, length, length), dtype=torch.${storage}, device=x.device)
    rights = torch.empty((batch, 128, length, length), dtype=torch.${storage}, device=x.device)
    gates = torch.empty((pairs, 128), dtype=torch.${storage}, device=x.device)
    products = torch.empty((batch, 128, length, length), dtype=torch.float32, device=x.device)
    mean = torch.empty(pairs, dtype=torch.float32, device=x.device)
    scale = torch.empty(pairs, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
%% if stats == "separate"
    stats_kernel[(triton.cdiv(pairs, 16),)](x, mean, scale, pairs, dim, ROWS=16, BLOCK=128, num_warps=4)
%% endif
    grid = (triton.cdiv(pairs, ${rows}), ${128 // channels}, ${1 if fusion == "together" else 3})
    project_kernel[grid](
        x, mask, mean, scale, norm_weight, norm_bias, left_weight, right_weight, left_gate_weight, right_gate_weight,
        out_gate_weight, lefts, rights, gates, pairs, square, dim, ROWS=${rows}, CHANNELS=${channels}, BLOCK=32,
        num_warps=${warps}, num_stages=2
    )
    tiles = triton.cdiv(length, ${side})
    multiply_kernel[(tiles * tiles, batch * 128)](
        lefts, rights, products, length, SIDE=${side}, BLOCK=32, num_warps=4, num_stages=${stages}
    )
    back_kernel[(triton.cdiv(pairs, ${back}),)](
        products, gates, out_norm_weight, out_norm_bias, out_weight, out, pairs, square, dim, ROWS=${back}, COLS=32,
        num_warps=4, num_stages=1
    )
    return out
