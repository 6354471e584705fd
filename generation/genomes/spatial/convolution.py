# Convolutions in Triton: direct, implicit GEMM, and GEMM over columns written out first.
# facts full = spatial/convolutions.toml
# let full = Convolution(full)
# let splits = 1
# let phased = False
# let epilogue = "fused"
# let math = "precise"
# let columns = "gathered"
# let precision = "ieee"
# family conv_direct_triton where True
# shape swapped = False, True
# shape grid = "channels_fast", "pixels_fast"
# shape persistent = False, True
# pick programs = 264, 528, 1056
# shape phased = (True, False) if full.phased else ()
# shape epilogue = ("fused", "separate") if full.has_epilogue else ()
# shape splits = (1, 1, 2, 4) if full.many_channels else ()
# shape tile = ("flat", "row") if len(full.axes) > 1 else "flat"
# shape order = "channels_outer", "taps_outer"
# shape taps = "unrolled", "looped"
# pick block_c = 2, 4, 8, 16, 32
# pick block_p = 32, 64, 128, 256, 512
# pick warps = 2, 4, 8
# # A finishing pass does what follows the convolution where the epilogue is separate or the sum is split.
# let finishing = epilogue != "fused" or splits != 1
# let form = full.bare if finishing else full
# let each = block_c * block_p / (32 * warps)
# refuse not 1 <= each <= 64: {each:g} accumulators per thread
# refuse full.window > 1 and each > 32: two tiles per thread must fit the registers
# refuse tile == "row" and block_p > full.row_width: a row is shorter than the tile
# refuse len(full.axes) == 3 and phased and taps == "unrolled": eight compilations of unrolled taps
# refuse not persistent and programs != 264: programs matters only to a persistent grid
# refuse not finishing and (full.over_channels or full.total) and grid != "channels_fast": this epilogue fixes the grid
#     order
# refuse finishing and full.has_epilogue and epilogue == "fused": a split sum cannot fuse its epilogue
#
# family conv_gemm_triton where True
# shape swapped = False, True
# shape grid = "channels_fast", "pixels_fast"
# shape persistent = False, True
# pick programs = 264, 528, 1056
# shape phased = (True, False) if full.phased else ()
# shape epilogue = ("fused", "separate") if full.has_epilogue else ()
# shape splits = (1, 1, 2, 4) if full.many_channels else ()
# pick tile = "flat"
# shape order = ("channels_outer", "taps_outer") if full.many_channels else "channels_outer"
# pick block_c = 16, 32, 64
# pick block_p = 32, 64, 128, 256
# pick block_k = 16, 32
# pick warps = 4, 8
# pick stages = 1, 2, 3
# shape columns = () if full.transposed else ("gathered", "gathered", "stored")
# shape precision = () if full.half else ("ieee", "tf32x3")
# # A finishing pass does what follows the convolution where the epilogue is separate or the sum is split.
# let finishing = epilogue != "fused" or splits != 1
# let form = full.bare if finishing else full
# let each = block_c * block_p / (32 * warps)
# refuse not 4 <= each <= 64: {each:g} accumulators per thread
# let stored = columns == "stored"
# refuse stored and full.window > 1 and epilogue == "fused": stored columns hold single outputs, not windows
# refuse stored and (splits > 1 or order == "taps_outer"): stored columns are summed in one piece, in order
# refuse not persistent and programs != 264: programs matters only to a persistent grid
# refuse not finishing and (full.over_channels or full.total) and grid != "channels_fast": this epilogue fixes the grid
#     order
# refuse finishing and full.has_epilogue and epilogue == "fused": a split sum cannot fuse its epilogue

<%# A tile of BLOCK_C channels by BLOCK_P pixels, or the other way round where `swapped`. %>
%% set gemm, stored = block_k is defined, columns == "stored"
%% set rank, splitting = form.axes | length, splits > 1
%% set c_side, p_side = ("[None, :]", "[:, None]") if swapped else ("[:, None]", "[None, :]")
<%# The products' side of the weights and of the gathered inputs. %>
%% set c_inner, p_inner = p_side, c_side
%% set first_tap = "(FIRST_{up} + " ~ form.stride ~ " * k{})" if phased else "k{}"
%% set counts = form.upper("COUNT_{}") if phased else form.taps
%% set shape = "(BLOCK_P, BLOCK_C)" if swapped else "(BLOCK_C, BLOCK_P)"
%% set inner, outer = ("group_in", "group_out") if form.groups > 1 else ("c_in", "c_out")
%% set sizes = ["c_in", "c_out"] + (["group_in", "group_out"] if form.groups > 1 else []) + form.names("in_{}") + form.names("px_{}")
%% macro apply(form)
%% if form.before != "v"
v = ${form.before}
%% endif
%% endmacro
%% macro channel_values(form, mask, side="")
%% for name in form.channel_inputs
${name} = tl.load(${name}_ptr + c, mask=${mask}, other=0.0).to(tl.float32)${side}
%% endfor
%% endmacro
<%# From p_block: the image n, the coordinates of every pixel in the tile, and which of them exist. %>
%% macro decode_pixels(row)
%% if row and rank > 1
blocks = tl.cdiv(px_w, BLOCK_P)
w = (p_block % blocks) * BLOCK_P + tl.arange(0, BLOCK_P)
p_ok = w < px_w
row = p_block // blocks
h = row % px_h
%% if rank == 3
d = (row // px_h) % px_d
n = row // (px_h * px_d)
%% else
n = row // px_h
%% endif
<%# Bounds of transposed taps are compared pixel by pixel, so every coordinate has to be a vector there. %>
%% if form.transposed
%% for axis in form.axes[:-1]
${axis} = ${axis} + tl.zeros_like(w)
%% endfor
%% endif
%% else
blocks = tl.cdiv(${form.volume("px_{}")}, BLOCK_P)
n = p_block // blocks
p = (p_block % blocks) * BLOCK_P + tl.arange(0, BLOCK_P)
p_ok = p < ${form.volume("px_{}")}
%% if rank == 1
w = p
%% elif rank == 2
w = p % px_w
h = p // px_w
%% else
w = p % px_w
h = (p // px_w) % px_h
d = p // (px_w * px_h)
%% endif
%% endif
%% endmacro
<%# Their place in the output plane, and where their window starts in the input. %>
%% macro place_pixels(phased)
%% if phased
%% for axis in form.axes
${axis} = ${axis} * ${form.stride} + PHASE_${axis | upper}
%% endfor
%% endif
pixel = ${form.offset("{}", "out_{}" if phased else "px_{}")}
corner = n * c_in * in_plane${"" if form.transposed else " + " ~ form.offset("{}" | times(form.stride * form.window), "in_{}")}
%% endmacro
<%# Where a transposed tap finds its input. %>
%% macro tap_places(pixel="", tap="")
%% for axis in form.axes
r${axis} = ${axis}${pixel}${" + " ~ form.padding if form.padding else ""} - ${first_tap.format(axis ~ tap, up=axis | upper)}
i${axis} = r${axis}${" // " ~ form.stride if form.stride > 1 else ""}
%% endfor
tap_ok = <%% for axis in form.axes %%>${"(r" ~ axis ~ " % " ~ form.stride ~ " == 0) & " if form.stride > 1 and not phased else ""}(r${axis} >= 0) & (i${axis} < in_${axis})${"" if loop.last else " & "}<%% endfor +%%>
%% endmacro
%% set input_offset = form.offset("i{}", "in_{}") if form.transposed else form.offset("k{}" | times(form.dilation), "in_{}")
%% set tap_number = form.phased_tap() if phased else form.tap()
%% macro filter_offset(channel="", inner="")
%% if not form.transposed
(c${channel} * c_in + ci${inner})
%%- elif form.groups > 1
((group * group_in + ci${inner}) * group_out + c_local${channel})
%%- else
(ci${inner} * c_out + c${channel})
%%- endif
%% endmacro
%% macro choose_channels()
%% if form.groups == 1
c = c_block * BLOCK_C + tl.arange(0, BLOCK_C)
c_ok = c < c_out
%% else
group = c_block // tl.cdiv(group_out, BLOCK_C)
c_local = (c_block % tl.cdiv(group_out, BLOCK_C)) * BLOCK_C + tl.arange(0, BLOCK_C)
c = group * group_out + c_local
c_ok = c_local < group_out
corner += group * group_in * in_plane
%% endif
${channel_values(form, "c_ok", c_side)}
%% endmacro
%% macro tap_loops(depth, kind="range")
%% for axis in form.axes
${"    " * (depth + loop.index0)}for k${axis} in ${kind}(${counts[loop.index0]}):
%% endfor
%% endmacro
<%# One tap of one input channel at a time. %>
%% macro direct_loop()
%% set kind = "tl.static_range" if taps == "unrolled" else "range"
%% if order == "channels_outer"
for ci in range(ci_first, ci_last):
${tap_loops(1, kind)}
%% filter indent(4 * (rank + 1), true)
${tap_places() if form.transposed else ""}
${direct_product()}
%% endfilter
%% else
${tap_loops(0, kind)}
%% filter indent(4 * rank, true)
${tap_places() if form.transposed else ""}
for ci in range(ci_first, ci_last):
${direct_product() | indent(4, true)}
%% endfilter
%% endif
%% endmacro
%% macro direct_product()
at = corner + ci * in_plane + ${input_offset}
value = tl.load(x_ptr + at, mask=p_ok${" & tap_ok" if form.transposed else ""}, other=0.0)
tap = ${tap_number}
weight = tl.load(w_ptr + ${filter_offset() | trim} * ${form.tap_count} + tap, mask=c_ok, other=0.0)
%% if form.half
value = value.to(tl.float32)
weight = weight.to(tl.float32)
%% endif
acc += weight${c_side} * value${p_side}
%% endmacro
%% macro dot()
acc = tl.dot(${"value, weight" if swapped else "weight, value"}, acc${"" if form.half else ", input_precision=PRECISION"})
%% endmacro
<%# BLOCK_K products at a time, with inputs gathered as the columns of a matrix. %>
%% macro gemm_loop()
%% set tap_side = order != "taps_outer"
%% set number = "(" ~ counts | join(" * ") ~ ")"
%% if tap_side
for start in range(ci_first * ${number}, ci_last * ${number}, BLOCK_K):
%% else
${tap_loops(0)}
${"    " * rank}for start in range(ci_first, ci_last, BLOCK_K):
%% endif
%% filter indent(4 if tap_side else 4 * (rank + 1), true)
%% if tap_side
k = start + tl.arange(0, BLOCK_K)
k_ok = k < ci_last * ${number}
ci = k // ${number}
%% for axis in form.axes
%% set below = counts[loop.index:] | join(" * ")
k${axis} = ${"k // (" ~ below ~ ")" if below else "k"} % ${counts[loop.index0]}
%% endfor
%% else
ci = start + tl.arange(0, BLOCK_K)
k_ok = ci < ci_last
%% endif
%% if form.transposed
${tap_places(p_side, p_inner if tap_side else "")}
at = corner + ci${p_inner} * in_plane + ${input_offset}
%% else
at = corner${p_side} + (ci * in_plane + ${input_offset})${p_inner}
%% endif
value = tl.load(x_ptr + at, mask=p_ok${p_side} & k_ok${p_inner}${" & tap_ok" if form.transposed else ""}, other=0.0)
w_at = ${filter_offset(c_side, c_inner) | trim} * ${form.tap_count} + (${tap_number})${c_inner if tap_side else ""}
weight = tl.load(w_ptr + w_at, mask=c_ok${c_side} & k_ok${c_inner}, other=0.0)
${dot()}
%% endfilter
%% endmacro
<%# A plain matrix product over columns that an earlier pass wrote out. %>
%% macro stored_loop()
for start in range(0, products, BLOCK_K):
    k = start + tl.arange(0, BLOCK_K)
    k_ok = k < products
    at = (n * products + k${p_inner}) * plane + pixel${p_side}
    value = tl.load(x_ptr + at, mask=p_ok${p_side} & k_ok${p_inner}, other=0.0)
    w_at = c${c_side} * products + k${c_inner}
    weight = tl.load(w_ptr + w_at, mask=c_ok${c_side} & k_ok${c_inner}, other=0.0)
${dot() | indent(4, true)}
%% endmacro
%% macro accumulate()
acc = tl.zeros(${shape}, tl.float32)
${stored_loop() if stored else gemm_loop() if gemm else direct_loop()}
v = acc
${apply(form)}
%% endmacro
<%# All a program does for one tile, from `tile_id` to the store. %>
%% macro tile_body()
%% if splitting
split = tile_id // tiles
tile_id = tile_id % tiles
chunk = tl.cdiv(${inner}, ${splits})
ci_first = split * chunk
ci_last = tl.minimum(ci_first + chunk, ${inner})
%% else
ci_first = 0
ci_last = ${inner}
%% endif
in_plane = ${form.volume("in_{}")}
%% if form.over_channels
p_block = tile_id
%% elif form.total or grid == "channels_fast"
p_block = tile_id // c_blocks
c_block = tile_id % c_blocks
%% else
p_block = tile_id % p_blocks
c_block = tile_id // p_blocks
%% endif
${decode_pixels(tile == "row")}
${place_pixels(phased)}
%% if form.over_channels
best = tl.full((BLOCK_P,), float('inf'), tl.float32)
for c_block in range(tl.cdiv(c_out, BLOCK_C)):
%% filter indent(4, true)
${choose_channels()}
${accumulate()}
v = tl.where(c_ok${c_side}, v, float('inf'))
best = tl.minimum(best, tl.min(v, ${1 if swapped else 0}))
%% endfilter
tl.store(y_ptr + n * ${form.volume("px_{}")} + pixel, best, mask=p_ok)
%% else
${choose_channels()}
%% if form.window == 1
${accumulate()}
%% else
first = corner
best = tl.full(${shape}, ${"float('-inf')" if form.combine == "max" else "0.0"}, tl.float32)
for sub in range(${form.window ** 2}):
    corner = first + sub // ${form.window} * in_w + sub % ${form.window}
${accumulate() | indent(4, true)}
    best = ${"tl.maximum(best, v)" if form.combine == "max" else "best + v"}
v = best
%% if form.after != "v"
v = ${form.after}
%% endif
%% endif
%% if form.total
v = tl.where(c_ok${c_side} & p_ok${p_side}, v, 0.0)
tl.store(y_ptr + tile_id, tl.sum(tl.sum(v, 1), 0))
%% else
%% set plane = form.volume("out_{}" if phased else "px_{}")
y_at = ${"split * (images * c_out * " ~ plane ~ ") + " if splitting else ""}(n * c_out + c${c_side}) * (${plane}) + pixel${p_side}
tl.store(y_ptr + y_at, v.to(y_ptr.dtype.element_ty), mask=c_ok${c_side} & p_ok${p_side})
%% endif
%% endif
%% endmacro
import torch
import triton
import triton.language as tl


<%% if full.uses("relu") %%>
@triton.jit
def relu(v):
    return tl.maximum(v, 0.0)


<%% endif %%>
<%% if full.uses("tanh_") %%>
@triton.jit
def tanh_(v):
    return 2.0 * tl.sigmoid(2.0 * v) - 1.0


<%% endif %%>
<%% if full.uses("sigmoid") %%>
@triton.jit
def sigmoid(v):
    return tl.sigmoid(v)


<%% endif %%>
<%% if full.uses("hardswish") %%>
@triton.jit
def hardswish(v):
    return v * tl.minimum(tl.maximum(v + 3.0, 0.0), 6.0) / 6.0


<%% endif %%>
<%% if full.uses("mish") %%>
@triton.jit
def mish(v):
    e = tl.exp(tl.minimum(v, 20.0))
    return v * (e * e + 2.0 * e) / (e * e + 2.0 * e + 2.0)


<%% endif %%>
<%# The pass that writes out the gathered columns [image, product, pixel]. %>
<%% if stored %%>
<%% filter packed %%>
@triton.jit
def columns(x_ptr, columns_ptr, c_in, ${form.listed("in_{}")}, ${form.listed("px_{}")}, products, BLOCK_P: tl.constexpr):
%% filter indent(4, true)
k = tl.program_id(0) % products
p_block = tl.program_id(0) // products
in_plane = ${form.volume("in_{}")}
ci = k // ${form.tap_count}
%% set below = namespace(count=form.tap_count)
%% for axis, count in form.loops
%% set below.count = below.count // count
k${axis} = k // ${below.count} % ${count}
%% endfor
${decode_pixels(false)}
${place_pixels(false)}
value = tl.load(x_ptr + corner + ci * in_plane + ${input_offset}, mask=p_ok)
plane = ${form.volume("px_{}")}
tl.store(columns_ptr + (n * products + k) * plane + pixel, value, mask=p_ok)
%% endfilter
<%% endfilter %%>


<%% endif %%>
<%# Unrolled taps need their number at compile time; otherwise one compilation serves all phases. %>
%% set phases = form.upper("PHASE_{}") + form.upper("FIRST_{}") + form.upper("COUNT_{}") if phased else []
%% set fixed = phases if not gemm and taps == "unrolled" else []
%% set open = [] if fixed else phases
<%% filter packed %%>
@triton.jit${"(do_not_specialize=[" ~ '"' ~ open | join('", "') ~ '"' ~ "])" if open else ""}
def convolve(x_ptr, w_ptr, <%% for name in form.channel_inputs %%>${name}_ptr, <%% endfor %%>y_ptr, ${(sizes + ["p_blocks", "c_blocks", "tiles", "images"] + (form.names("out_{}") if phased else []) + open + (["products", "plane"] if stored else [])) | join(", ")}<%% for name in ["BLOCK_C", "BLOCK_P"] + fixed + (["BLOCK_K", "PRECISION"] if gemm else []) %%>, ${name}: tl.constexpr<%% endfor %%>):
%% if persistent
    for number in range(tl.program_id(0), tiles * ${splits}, tl.num_programs(0)):
        tile_id = number
%% else
    tile_id = tl.program_id(0)
%% endif
${tile_body() | indent(8 if persistent else 4, true)}
<%% endfilter %%>


<%# The pass that turns raw convolution outputs, summed over splits, into the answer. %>
<%% if finishing %%>
%% macro read()
v = tl.zeros((BLOCK,), tl.float32)
for s in range(SPLITS):
    v += tl.load(buffer_ptr + s * raw + at, mask=ok, other=0.0)
%% endmacro
<%% filter packed %%>
@triton.jit
def finish(buffer_ptr, <%% for name in full.channel_inputs %%>${name}_ptr, <%% endfor %%>y_ptr, count, c_out, raw, ${"plane" if full.window == 1 else "out_h, out_w, px_h, px_w"}, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
%% if full.total
    n = tl.program_id(0)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = j < count
    i = n * count + j
%% else
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < count
%% endif
%% if full.over_channels
    best = tl.full((BLOCK,), float("inf"), tl.float32)
    for c in range(c_out):
        at = (i // plane * c_out + c) * plane + i % plane
${read() | indent(8, true)}
${channel_values(full, "c < c_out") | indent(8, true)}
        v = ${full.before}
        best = tl.minimum(best, v)
    tl.store(y_ptr + i, best, mask=ok)
%% elif full.window > 1
    c = (i // (px_h * px_w)) % c_out
    best = tl.full((BLOCK,), ${"float('-inf')" if full.combine == "max" else "0.0"}, tl.float32)
    for k in range(${full.window ** 2}):
        row = (i // px_w) % px_h * ${full.window} + k // ${full.window}
        at = (i // (px_h * px_w) * out_h + row) * out_w + i % px_w * ${full.window} + k % ${full.window}
${read() | indent(8, true)}
${channel_values(full, "ok") | indent(8, true)}
${apply(full) | indent(8, true)}
        best = ${"tl.maximum(best, v)" if full.combine == "max" else "best + v"}
    v = best
%% if full.after != "v"
    v = ${full.after}
%% endif
%% if full.total
    v = tl.where(ok, v, 0.0)
    tl.store(y_ptr + n * tl.num_programs(1) + tl.program_id(1), tl.sum(v, 0))
%% else
    tl.store(y_ptr + i, v, mask=ok)
%% endif
%% else
    at = i
${read() | indent(4, true)}
    c = (i // plane) % c_out
${channel_values(full, "ok") | indent(4, true)}
${apply(full) | indent(4, true)}
    tl.store(y_ptr + i, v.to(y_ptr.dtype.element_ty), mask=ok)
%% endif
<%% endfilter %%>


<%% endif %%>
<%# Sums each image's partial sums, in a fixed order so that the answer never varies. %>
<%% if full.total %%>
@triton.jit
def total(partial_ptr, y_ptr, count, BLOCK: tl.constexpr):
    n = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        j = start + tl.arange(0, BLOCK)
        acc += tl.load(partial_ptr + n * count + j, mask=j < count, other=0.0)
    tl.store(y_ptr + n, tl.sum(acc, 0))


<%% endif %%>
<%% include "spatial/convolution_host.py" %%>
