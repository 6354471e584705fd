# Per-group float8 quantisation; Triton rounds bits by hand, so any GPU runs it.
# family fp8_quant_triton for fp8_quant
# shape method = "groups", "stride", "two_pass"
# shape rounding = "integer", "float"
# shape divide = "exact", "reciprocal"
# shape hint = "", ', eviction_policy="evict_first"'
# pick rows = 1, 2, 4, 8, 16, 32, 64
# pick warps = 1, 2, 4, 8
# pick waves = 4, 8, 16
# refuse method != "stride" and waves != 8: waves belong to the grid stride
# refuse rows * 128 > warps * 32 * 64: too many values per thread

import torch
import triton
import triton.language as tl


@triton.jit
def to_e4m3(value):
    # Round a magnitude of at most 448 to the nearest e4m3 value, ties to even, as integer bits.
    bits = value.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    magnitude = bits & 0x7FFFFFFF
%% if rounding == "integer"
    rounded = (magnitude + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20
    normal = rounded - (120 << 3)
%% else
    # Adding and taking away a power of two leaves the four leading bits, rounded.
    exponent = magnitude & 0x7F800000
    scale = (exponent + (20 << 23)).to(tl.float32, bitcast=True)
    exact = (magnitude.to(tl.float32, bitcast=True) + scale) - scale
    normal = (exact.to(tl.int32, bitcast=True) >> 20) - (120 << 3)
%% endif
    # Below 2^-6 the step is 2^-9: adding 2^14 leaves exactly those bits at the end of the mantissa.
    small = (magnitude.to(tl.float32, bitcast=True) + 16384.0).to(tl.int32, bitcast=True) & 0xF
    code = tl.where(magnitude < 0x3C800000, small, normal)
    return (tl.minimum(code, 0x7E) | sign).to(tl.uint8)


@triton.jit
def quantise(x_ptr, out_ptr, scales_ptr, group, groups, GROUP: tl.constexpr, ROWS: tl.constexpr):
    known = group < groups
    place = group.to(tl.int64)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    value = tl.load(x_ptr + place, mask=known[:, None], other=0.0${hint}).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(value), 1), 1.0e-10) / 448.0
%% if divide == "reciprocal"
    scaled = value * (1.0 / scale)[:, None]
%% else
    scaled = value / scale[:, None]
%% endif
    tl.store(scales_ptr + group, scale, mask=known)
    tl.store(out_ptr + place, to_e4m3(scaled), mask=known[:, None])


%% if method == "two_pass"
@triton.jit
def scale_kernel(x_ptr, scales_ptr, groups, GROUP: tl.constexpr, ROWS: tl.constexpr):
    group = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    known = group < groups
    place = group.to(tl.int64)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    value = tl.load(x_ptr + place, mask=known[:, None], other=0.0).to(tl.float32)
    tl.store(scales_ptr + group, tl.maximum(tl.max(tl.abs(value), 1), 1.0e-10) / 448.0, mask=known)


@triton.jit
def round_kernel(x_ptr, out_ptr, scales_ptr, count, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    known = place < count
    value = tl.load(x_ptr + place, mask=known, other=0.0${hint}).to(tl.float32)
    scale = tl.load(scales_ptr + place // GROUP, mask=known, other=1.0)
%% if divide == "reciprocal"
    tl.store(out_ptr + place, to_e4m3(value * (1.0 / scale)), mask=known)
%% else
    tl.store(out_ptr + place, to_e4m3(value / scale), mask=known)
%% endif
%% else
@triton.jit
def quantise_kernel(x_ptr, out_ptr, scales_ptr, groups, GROUP: tl.constexpr, ROWS: tl.constexpr):
%% if method == "stride"
    for first in range(tl.program_id(0) * ROWS, groups, tl.num_programs(0) * ROWS):
        quantise(x_ptr, out_ptr, scales_ptr, first + tl.arange(0, ROWS), groups, GROUP, ROWS)
%% else
    quantise(x_ptr, out_ptr, scales_ptr, tl.program_id(0) * ROWS + tl.arange(0, ROWS), groups, GROUP, ROWS)
%% endif
%% endif


def run(x, group):
    tokens, hidden = x.shape
    groups = tokens * hidden // group
    out = torch.empty((tokens, hidden), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((tokens, hidden // group), dtype=torch.float32, device=x.device)
    bits = out.view(torch.uint8)
    programs = triton.cdiv(groups, ${rows})
%% if method == "two_pass"
    scale_kernel[(programs,)](x, scales, groups, GROUP=group, ROWS=${rows}, num_warps=${warps})
    grid = (triton.cdiv(tokens * hidden, ${256 * warps}),)
    round_kernel[grid](x, bits, scales, tokens * hidden, GROUP=group, BLOCK=${256 * warps}, num_warps=${warps})
%% else
%% if method == "stride"
    programs = min(programs, 132 * ${waves})
%% endif
    quantise_kernel[(programs,)](x, bits, scales, groups, GROUP=group, ROWS=${rows}, num_warps=${warps})
%% endif
    return out, scales
