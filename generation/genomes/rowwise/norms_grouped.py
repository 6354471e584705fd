# Norms by statistics of many rows at once, in Triton: batch, group, instance and Frobenius norm.
# let frobenius = problem == "frobenius_norm"
# let affine = problem in ("batch_norm", "group_norm")
# family grouped_triton for batch_norm, group_norm, instance_norm, frobenius_norm
# shape algorithm = "sums" if frobenius else ("sums", "centred")
# shape combine = "atomic", "finalize", "inline"
# shape inner = "lanes", "scalar"
# shape walk = "forward", "backward", "strided"
# shape load = "plain", "ca", "cg", "first", "last"
# shape store = "plain", "cs", "cg", "first"
# pick block = 512, 1024, 2048, 4096, 8192
# pick split = 1, 2, 4, 8
# pick stages = 1, 2, 3
# pick warps = 2, 4, 8, 16
# pick apply_block = 512, 1024, 2048, 4096, 8192
# pick apply_warps = 2, 4, 8, 16
# pick per_sm = 2, 4, 8
# let share = block / (32 * warps)
# refuse not 1 <= share <= 64: {share:g} elements per lane
# let share = apply_block / (32 * apply_warps)
# refuse not 1 <= share <= 64: {share:g} elements per lane
# refuse frobenius and combine == "inline" and split > 1: every program would read thousands of parts
# refuse walk == "strided" and not 8 <= per_sm * apply_warps <= 64: too few or too many warps on an SM
# let centred = algorithm == "centred"
# let sums = not frobenius and not centred
# let hint = HINTS[load]
# let store = HINTS[store]
# polish tidy

import torch
import triton
import triton.language as tl


@triton.jit
def measure(x_ptr, mean_ptr, one_ptr, two_ptr, plane, channels, images, per_group, share,
            BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
%% if problem == "batch_norm"
    place = (row % channels) * images + row // channels
%% else
    place = row
%% endif
    end = tl.minimum(part * share + share, plane)
%% if inner == "lanes"
    first = tl.zeros([BLOCK], tl.float32)
%% if sums
    second = tl.zeros([BLOCK], tl.float32)
%% endif
%% else
    first = 0.0
%% if sums
    second = 0.0
%% endif
%% endif
    for start in tl.range(part * share, end, BLOCK, num_stages=${stages}):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row * plane + at, mask=at < end, other=0.0${hint})
%% if frobenius
%% set one, two = "v * v", ""
%% else
%% set one, two = "v", "v * v"
%% endif
        first += ${one if inner == "lanes" else "tl.sum(" + one + ", axis=0)"}
%% if sums
        second += ${two if inner == "lanes" else "tl.sum(" + two + ", axis=0)"}
%% endif
%% if inner == "lanes"
    first = tl.sum(first, axis=0)
%% if sums
    second = tl.sum(second, axis=0)
%% endif
%% endif
%% if combine == "atomic"
    tl.atomic_add(one_ptr + place // per_group, first, sem="relaxed")
%% if sums
    tl.atomic_add(two_ptr + place // per_group, second, sem="relaxed")
%% endif
%% else
    tl.store(one_ptr + place * SPLIT + part, first)
%% if sums
    tl.store(two_ptr + place * SPLIT + part, second)
%% endif
%% endif
%% if centred
@triton.jit
def deviate(x_ptr, one_ptr, two_ptr, plane, channels, images, per_group, share,
            BLOCK: tl.constexpr, SPLIT: tl.constexpr, PARTS: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
%% if problem == "batch_norm"
    place = (row % channels) * images + row // channels
%% else
    place = row
%% endif
    group = place // per_group
%% if combine == "atomic"
    mean = tl.load(one_ptr + group) / (per_group * plane)
%% else
    k = tl.arange(0, PARTS)
    known = k < per_group * SPLIT
    mean = tl.sum(tl.load(one_ptr + group * per_group * SPLIT + k, mask=known, other=0.0), axis=0) / (per_group * plane)
%% endif
    end = tl.minimum(part * share + share, plane)
    first = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(part * share, end, BLOCK, num_stages=${stages}):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row * plane + at, mask=at < end, other=0.0${hint})
        d = tl.where(at < end, v - mean, 0.0)
        first += d * d
%% if combine == "atomic"
    tl.atomic_add(two_ptr + group, tl.sum(first, axis=0), sem="relaxed")
%% else
    tl.store(two_ptr + place * SPLIT + part, tl.sum(first, axis=0))
%% endif
%% endif
%% macro totals(tab)
%% if combine == "atomic"
${tab}one = tl.load(one_ptr + group)
%% if not frobenius
${tab}two = tl.load(two_ptr + group)
%% endif
%% else
${tab}k = tl.arange(0, PARTS)
${tab}known = k < per_group * SPLIT
${tab}one = tl.sum(tl.load(one_ptr + group * per_group * SPLIT + k, mask=known, other=0.0), axis=0)
%% if not frobenius
${tab}two = tl.sum(tl.load(two_ptr + group * per_group * SPLIT + k, mask=known, other=0.0), axis=0)
%% endif
%% endif
%% if frobenius
${tab}mean = 0.0
${tab}factor = 1.0 / tl.sqrt(one)
%% else
${tab}count = per_group * plane
${tab}mean = one / count
%% if centred
${tab}factor = tl.rsqrt(two / count + 1e-5)
%% else
${tab}factor = tl.rsqrt(two / count - mean * mean + 1e-5)
%% endif
%% endif
%% endmacro
%% if combine == "finalize"
@triton.jit
def finalize(one_ptr, two_ptr, mean_ptr, factor_ptr, plane, per_group, SPLIT: tl.constexpr, PARTS: tl.constexpr):
    group = tl.program_id(0)
${totals("    ")}
    tl.store(mean_ptr + group, mean)
    tl.store(factor_ptr + group, factor)
%% endif
@triton.jit
def apply(x_ptr, weight_ptr, bias_ptr, y_ptr, one_ptr, two_ptr, mean_ptr, factor_ptr, rows, plane, channels, images,
          per_group, BLOCK: tl.constexpr, SPLIT: tl.constexpr, PARTS: tl.constexpr):
%% if walk == "strided"
    pieces = tl.cdiv(plane, BLOCK)
    for item in tl.range(tl.program_id(0), rows * pieces, tl.num_programs(0)):
        row = item // pieces
        at = (item % pieces) * BLOCK + tl.arange(0, BLOCK)
%% set tab = "        "
%% else
    row = ${"tl.num_programs(0) - 1 - tl.program_id(0)" if walk == "backward" else "tl.program_id(0)"}
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
%% set tab = "    "
%% endif
%% if problem == "batch_norm"
${tab}group = row % channels
%% else
${tab}group = row // per_group
%% endif
%% if combine == "finalize"
${tab}factor = tl.load(factor_ptr + group)
${tab}mean = tl.load(mean_ptr + group)
%% else
${totals(tab)}
%% endif
%% if affine
${tab}scale = factor * tl.load(weight_ptr + row % channels)
${tab}shift = tl.load(bias_ptr + row % channels) - mean * scale
%% elif frobenius
${tab}scale = factor
%% else
${tab}scale = factor
${tab}shift = -mean * factor
%% endif
${tab}m = at < plane
${tab}v = tl.load(x_ptr + row * plane + at, mask=m, other=0.0${hint})
%% if frobenius
${tab}tl.store(y_ptr + row * plane + at, v * scale, mask=m${store})
%% else
${tab}tl.store(y_ptr + row * plane + at, v * scale + shift, mask=m${store})
%% endif


def run(x${", weight, bias" if affine else ""}):
    y = torch.empty_like(x)
    images, channels, plane = x.shape[0], x.shape[1], x.shape[2] * x.shape[3]
    rows = images * channels
%% if problem == "batch_norm"
    per_group = images
%% elif problem == "group_norm"
    per_group = channels // 8
%% elif problem == "instance_norm"
    per_group = 1
%% else
    per_group = rows
%% endif
    groups = rows // per_group
    share = triton.cdiv(triton.cdiv(plane, ${split}), ${block}) * ${block}
    parts = triton.next_power_of_2(per_group * ${split})
%% if combine == "atomic"
    one = torch.zeros(groups, dtype=torch.float32, device=x.device)
    two = torch.zeros(groups, dtype=torch.float32, device=x.device)
%% else
    one = torch.empty(rows * ${split}, dtype=torch.float32, device=x.device)
    two = torch.empty(rows * ${split}, dtype=torch.float32, device=x.device)
%% endif
    mean = torch.empty(groups, dtype=torch.float32, device=x.device)
    factor = torch.empty(groups, dtype=torch.float32, device=x.device)
    grid = (rows, ${split})
    measure[grid](x, mean, one, two, plane, channels, images, per_group, share, BLOCK=${block}, SPLIT=${split},
                  num_warps=${warps})
%% if centred
    deviate[grid](x, one, two, plane, channels, images, per_group, share, BLOCK=${block}, SPLIT=${split}, PARTS=parts,
                  num_warps=${warps})
%% endif
%% if combine == "finalize"
    finalize[(groups,)](one, two, mean, factor, plane, per_group, SPLIT=${split}, PARTS=parts, num_warps=4)
%% endif
%% if walk == "strided"
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4
    grid = (min(rows * triton.cdiv(plane, ${apply_block}), processors * ${per_sm}),)
%% else
    grid = (rows, triton.cdiv(plane, ${apply_block}))
%% endif
    apply[grid](x, ${"weight, bias" if affine else "x, x"}, y, one, two, mean, factor, rows, plane, channels, images,
                per_group, BLOCK=${apply_block}, SPLIT=${split}, PARTS=parts, num_warps=${apply_warps})
    return y
