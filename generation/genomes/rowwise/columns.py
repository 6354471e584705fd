# Reductions of the middle dimension of a (batch, length, width) tensor, and RMS norm over channels, in Triton.
# let pair = problem in ("argmax", "argmin")
# let sums = problem in ("sum_reduce", "mean_reduce")
# let rms = problem == "rms_norm"
# # Longest reduced dimension of any workload, rounded up to a power of two.
# let longest = {"sum_reduce": 1024, "mean_reduce": 4096, "max_reduce": 512, "argmax": 2048, "argmin": 1024,
#     "rms_norm": 64}[problem]
# family columns_triton for sum_reduce, mean_reduce, max_reduce, argmax, argmin, rms_norm
# shape plan = "lanes", "scalar", "single", "whole", *(() if rms else ("split", "atomic") if sums else ("split",))
# shape finish = ("same", "second") if rms else "same"
# shape order = "columns", "batches"
# shape load = "plain", "ca", "cg", "first", "last"
# shape store = "plain", "cs", "cg", "first"
# pick rows = 2, 4, 8, 16, 32
# pick cols = 16, 32, 64, 128, 256, 512
# pick split = 2, 4, 8, 16
# pick stages = 1, 2, 3
# pick warps = 1, 2, 4, 8
# let lanes = 32 * warps
# let held = cols * (longest if plan == "whole" else 1 if plan == "single" else rows)
# refuse held < lanes: fewer elements than lanes
# refuse held > (32 if pair else 64) * lanes: more elements per lane than registers hold
# refuse plan == "single" and cols < 64: too few columns for one row at a time
# refuse plan == "single" and rms and finish == "same" and cols * rows > 64 * lanes: the second sweep holds more than
#     registers
# let sign = "<" if problem == "argmin" else ">"
# let fold = "sum" if sums or rms else "min" if problem == "argmin" else "max"
# let neutral = {"sum": "0.0", "min": 'float("inf")', "max": 'float("-inf")'}[fold]
# let hint = HINTS[load]
# let store = HINTS[store]
# let split_count = split if plan in ("split", "atomic") else 1
# let split = plan in ("split", "atomic")
# polish tidy

import torch
import triton
import triton.language as tl


%% macro begin(form)
best = tl.full(${form}, ${neutral}, tl.float32)
%% if pair
index = tl.zeros(${form}, tl.int32)
%% endif
%% endmacro
%% macro update()
%% if pair
better = v ${sign} best
index = tl.where(better, l, index)
best = tl.where(better, v, best)
%% elif problem == "max_reduce"
best = tl.maximum(best, v)
%% elif problem == "rms_norm"
best += v * v
%% else
best += v
%% endif
%% endmacro
%% macro reduced(best, square=false)
%% if pair
top = tl.${fold}(${best}, axis=0)
first = tl.min(tl.where(${best} == top[None, :], index, 2147483647), axis=0)
%% elif problem == "rms_norm"
top = tl.sum(${best}${" * " + best if square else ""}, axis=0)
%% else
top = tl.${fold}(${best}, axis=0)
%% endif
%% endmacro
@triton.jit
def kernel(x_ptr, y_ptr, values_ptr, places_ptr, length, width, share, ROWS: tl.constexpr, COLS: tl.constexpr,
           SPLIT: tl.constexpr):
    b = tl.program_id(${1 if order == "columns" else 0})
    c = tl.program_id(${0 if order == "columns" else 1}) * COLS + tl.arange(0, COLS)
%% if split
    part = tl.program_id(2)
    begin = part * share
    end = tl.minimum(begin + share, length)
%% else
    begin = 0
    end = length
%% endif
    x_ptr += b * length * width
%% if plan == "single"
${begin("[COLS]") | indent(4, true)}
    for start in tl.range(begin, end, ROWS, num_stages=${stages}):
        for k in tl.static_range(ROWS):
            l = start + k
            v = tl.load(x_ptr + l * width + c, mask=(c < width) & (l + c * 0 < end), other=${neutral}${hint})
${update() | indent(12, true)}
    top = best
%% if pair
    first = index
%% endif
%% elif plan == "whole"
    l = tl.arange(0, ROWS)[:, None]
    v = tl.load(x_ptr + l * width + c[None, :], mask=(l < end) & (c < width)[None, :], other=${neutral}${hint})
%% if pair
    index = l + tl.zeros([ROWS, COLS], tl.int32)
%% endif
${reduced("v", square=true) | indent(4, true)}
%% elif plan == "scalar"
${begin("[COLS]") | indent(4, true)}
    for start in tl.range(begin, end, ROWS, num_stages=${stages}):
        l = start + tl.arange(0, ROWS)[:, None]
        v = tl.load(x_ptr + l * width + c[None, :], mask=(l < end) & (c < width)[None, :], other=${neutral}${hint})
%% if pair
        near = tl.${fold}(v, axis=0)
        place = tl.min(tl.where(v == near[None, :], l, 2147483647), axis=0)
        better = near ${sign} best
        index = tl.where(better, place, index)
        best = tl.where(better, near, best)
%% elif problem == "max_reduce"
        best = tl.maximum(best, tl.max(v, axis=0))
%% elif problem == "rms_norm"
        best += tl.sum(v * v, axis=0)
%% else
        best += tl.sum(v, axis=0)
%% endif
    top = best
%% if pair
    first = index
%% endif
%% else
${begin("[ROWS, COLS]") | indent(4, true)}
    for start in tl.range(begin, end, ROWS, num_stages=${stages}):
        l = start + tl.arange(0, ROWS)[:, None]
        v = tl.load(x_ptr + l * width + c[None, :], mask=(l < end) & (c < width)[None, :], other=${neutral}${hint})
${update() | indent(8, true)}
${reduced("best") | indent(4, true)}
%% endif
%% if plan == "split"
    tl.store(values_ptr + (b * SPLIT + part) * width + c, top, mask=c < width)
%% if pair
    tl.store(places_ptr + (b * SPLIT + part) * width + c, first, mask=c < width)
%% endif
%% elif plan == "atomic"
    part = top${" / length" if problem == "mean_reduce" else ""}
    tl.atomic_add(y_ptr + b * width + c, part, mask=c < width, sem="relaxed")
%% elif problem == "rms_norm"
    factor = 1.0 / tl.sqrt(top / length + 1e-5)
%% if finish == "second"
    tl.store(values_ptr + b * width + c, factor, mask=c < width)
%% elif plan == "whole"
    m = (l < end) & (c < width)[None, :]
    tl.store(y_ptr + (b * length + l) * width + c[None, :], v * factor[None, :], mask=m${store})
%% else
    for start in tl.range(0, length, ROWS, num_stages=${stages}):
        l = start + tl.arange(0, ROWS)[:, None]
        m = (l < length) & (c < width)[None, :]
        v = tl.load(x_ptr + l * width + c[None, :], mask=m, other=0.0)
        tl.store(y_ptr + (b * length + l) * width + c[None, :], v * factor[None, :], mask=m${store})
%% endif
%% elif pair
    tl.store(y_ptr + b * width + c, first.to(tl.int64), mask=c < width${store})
%% else
    tl.store(y_ptr + b * width + c, top${" / length" if problem == "mean_reduce" else ""}, mask=c < width${store})
%% endif
%% if plan == "split"
@triton.jit
def combine(y_ptr, values_ptr, places_ptr, length, width, COLS: tl.constexpr, SPLIT: tl.constexpr):
    b = tl.program_id(0)
    c = tl.program_id(1) * COLS + tl.arange(0, COLS)
    part = tl.arange(0, SPLIT)[:, None]
    m = (c < width)[None, :] & (part < SPLIT)
    v = tl.load(values_ptr + (b * SPLIT + part) * width + c[None, :], mask=m, other=${neutral})
%% if pair
    index = tl.load(places_ptr + (b * SPLIT + part) * width + c[None, :], mask=m, other=0)
%% endif
${reduced("v") | indent(4, true)}
%% if pair
    tl.store(y_ptr + b * width + c, first.to(tl.int64), mask=c < width)
%% else
    tl.store(y_ptr + b * width + c, top${" / length" if problem == "mean_reduce" else ""}, mask=c < width)
%% endif
%% endif
%% if finish == "second"
@triton.jit
def scale(x_ptr, y_ptr, values_ptr, length, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = c < width
    v = tl.load(x_ptr + row * width + c, mask=m)
    factor = tl.load(values_ptr + (row // length) * width + c, mask=m)
    tl.store(y_ptr + row * width + c, v * factor, mask=m${store})
%% endif


def run(x):
    batch, length = x.shape[0], x.shape[1]
    width = x.numel() // (batch * length)
%% if problem == "rms_norm"
    y = torch.empty_like(x)
%% elif problem == "sum_reduce"
    y = torch.${"zeros" if plan == "atomic" else "empty"}((batch, 1, width), dtype=torch.float32, device=x.device)
%% else
    kind = torch.${"int64" if pair else "float32"}
    y = torch.${"zeros" if plan == "atomic" else "empty"}((batch, width), dtype=kind, device=x.device)
%% endif
    share = triton.cdiv(triton.cdiv(length, ${split_count}), ${rows}) * ${rows}
%% if plan == "split"
    values = torch.empty((batch, ${split_count}, width), dtype=torch.float32, device=x.device)
    places = torch.empty((batch, ${split_count}, width), dtype=torch.int32, device=x.device)
%% elif finish == "second"
    values = torch.empty((batch, width), dtype=torch.float32, device=x.device)
    places = values
%% else
    values, places = y, y
%% endif
    columns = triton.cdiv(width, ${cols})
    grid = (${"columns, batch" if order == "columns" else "batch, columns"}, ${split_count})
    kernel[grid](x, y, values, places, length, width, share,
                 ROWS=${"triton.next_power_of_2(length)" if plan == "whole" else rows}, COLS=${cols},
                 SPLIT=${split_count}, num_warps=${warps})
%% if plan == "split"
    grid = (batch, triton.cdiv(width, 128))
    combine[grid](y, values, places, length, width, COLS=128, SPLIT=${split_count}, num_warps=4)
%% endif
%% if finish == "second"
    scale[(batch * length, triton.cdiv(width, 2048))](x, y, values, length, width, BLOCK=2048, num_warps=4)
%% endif
    return y
