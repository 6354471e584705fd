# Pooling and depthwise windows in Triton: straight from memory, or one pass per axis.
# facts form = spatial/windows.toml
# let form = Window(form)
# let flat = len(form.axes) == 1
# let separable = not flat and not form.weighted
%% section direct
# family window_direct_triton where True
# shape space = ("flat", "row") if flat else ("flat", "row", "tile")
# shape taps = "unrolled", "looped", "axis"
# shape grid = "plain", "persistent", "chunked"
# pick block = 32, 64, 128, 256, 512, 1024
# pick rows = 2, 4, 8, 16
# pick warps = 1, 2, 4, 8
# refuse space != "tile" and rows != 2: only tiles have rows
# refuse space == "tile" and taps == "axis": a tile has no third axis for the taps
# let each = block * (rows if space == "tile" else 1) * (form.padded_taps if taps == "axis" else 1) // (32 * warps)
# refuse taps != "axis" and not 1 <= each <= 16: {each} outputs per thread
# refuse taps == "axis" and not 1 <= each <= 64: {each} values per thread
# refuse space != "flat" and block > {3: 64, 2: 128, 1: 1024}[len(form.axes)]: a row is shorter than the block

%% set rank = form.axes | length
%% set neutral = "float('-inf')" if form.op == "max" else "0.0"
<%# Where the taps are a tensor axis, pixels are its rows. %>
%% set pixel, tap_side = ("[:, None]", "[None, :]") if taps == "axis" else ("", "")
%% set guard = ", mask=ok, other=0.0" if space == "flat" else ""
%% macro locate()
%% if space == "flat"
i = number * BLOCK + tl.arange(0, BLOCK)
ok = i < count
w = i % out_w
%% set below = namespace(text="out_w")
%% for axis in form.axes[:-1] | reverse
${axis} = i // (${below.text}) % out_${axis}
%% set below.text = below.text ~ " * out_" ~ axis
%% endfor
plane = i // (${below.text})
%% else
blocks = tl.cdiv(out_w, BLOCK)
%% if space == "row"
w = number % blocks * BLOCK + tl.arange(0, BLOCK)
ok = w < out_w
row = number // blocks
%% if rank > 1
h = row % out_h + tl.zeros_like(w)
row = row // out_h
%% endif
%% else
w = (number % blocks * BLOCK + tl.arange(0, BLOCK))[None, :]
row = number // blocks
tall = tl.cdiv(out_h, ROWS)
h = (row % tall * ROWS + tl.arange(0, ROWS))[:, None]
row = row // tall
ok = (w < out_w) & (h < out_h)
%% endif
%% if rank == 3
d = row % out_d + tl.zeros_like(w)
row = row // out_d
%% endif
plane = row
%% endif
%% endmacro
<%# Input coordinates of a tap. %>
%% macro places()
%% for axis in form.axes
i${axis} = ${form.input_place(axis ~ pixel, "k" ~ axis ~ tap_side)}
%% endfor
%% endmacro
%% macro load(start, ok)
value = tl.load(${start} + ${form.offset("i{}", "in_{}")}, mask=${ok}<%% if form.padding %%><%% for axis in form.axes %%> & (i${axis} >= 0)${"" if form.causal else " & (i" ~ axis ~ " < in_" ~ axis ~ ")"}<%% endfor %%><%% endif %%>, other=${neutral}).to(tl.float32)
%% endmacro
%% macro reduce()
%% if taps == "axis"
k = tl.arange(0, ${form.padded_taps})
k_ok = k < ${form.tap_count}
%% set below = namespace(count=form.tap_count)
%% for axis, count in form.loops
%% set below.count = below.count // count
k${axis} = k ${"// " ~ below.count ~ " " if below.count > 1 else ""}% ${count}
%% endfor
${places()}
${load("source[:, None]" if space == "flat" else "source", "ok[:, None] & k_ok[None, :]")}
%% if form.weighted
%% set channel, inside = ("channel[:, None]", "ok[:, None] & k_ok[None, :]") if space == "flat" else ("channel", "k_ok[None, :]")
value = value * tl.load(w_ptr + ${channel} * ${form.tap_count} + k[None, :], mask=${inside}, other=0.0).to(tl.float32)
%% endif
acc = tl.${"max" if form.op == "max" else "sum"}(value, 1)
%% else
acc = tl.full(${"(ROWS, BLOCK)" if space == "tile" else "(BLOCK,)"}, ${neutral}, tl.float32)
%% for axis, count in form.loops
${"    " * loop.index0}for k${axis} in ${"tl.static_range" if taps == "unrolled" else "range"}(${count}):
%% endfor
%% filter indent(4 * rank, true)
${places()}
${load("source", "ok")}
%% if form.weighted
weight = tl.load(w_ptr + channel * ${form.tap_count} + ${form.tap()}${guard}).to(tl.float32)
%% endif
${"acc = tl.maximum(acc, value)" if form.op == "max" else "acc += weight * value" if form.weighted else "acc += value"}
%% endfilter
%% endif
%% endmacro
import torch
import triton
import triton.language as tl


%% set rows_constant = ", ROWS: tl.constexpr" if space == "tile" else ""
<%% filter packed %%>
@triton.jit
def slide(x_ptr, ${"w_ptr, " if form.weighted else ""}${"bias_ptr, " if form.silu else ""}y_ptr, count, channels, tiles, ${form.listed("in_{}")}, ${form.listed("out_{}")}, BLOCK: tl.constexpr${rows_constant}):
%% if grid == "persistent"
    for number in range(tl.program_id(0), tiles, tl.num_programs(0)):
%% elif grid == "chunked"
    for step in range(4):
        number = tl.program_id(0) * 4 + step
%% else
    number = tl.program_id(0)
%% endif
%% filter indent(4 if grid == "plain" else 8, true)
${locate()}
%% if grid == "chunked"
ok = ok & (number < tiles)
%% endif
source = x_ptr + plane * (${form.volume("in_{}")})
out_plane = ${form.volume("out_{}")}
%% if form.weighted
channel = plane % channels
%% endif
${reduce()}
%% if form.op == "mean"
acc = acc * ${1 / form.tap_count}
%% endif
%% if form.silu
acc = acc + tl.load(bias_ptr + channel${guard}).to(tl.float32)
acc = acc * tl.sigmoid(acc)
%% endif
tl.store(y_ptr + ${"i" if space == "flat" else "plane * out_plane + " ~ form.offset("{}", "out_{}")}, acc.to(y_ptr.dtype.element_ty), mask=ok)
%% endfilter
<%% endfilter %%>


def run(${form.inputs | join(", ")}):
    n, channels, ${form.listed("in_{}")} = x.shape
%% for axis in form.axes
    out_${axis} = ${form.output_extent(axis)}
%% endfor
    y = torch.empty((n, channels, ${form.listed("out_{}")}), device=x.device, dtype=x.dtype)
%% set across = "triton.cdiv(out_w, " ~ block ~ ")"
%% if space == "flat"
    tiles = triton.cdiv(y.numel(), ${block})
%% elif space == "row"
    tiles = ${(["n * channels"] + form.names("out_{}")[:-1] + [across]) | join(" * ")}
%% else
    tiles = ${(["n * channels"] + form.names("out_{}")[:-2] + ["triton.cdiv(out_h, " ~ rows ~ ")", across]) | join(" * ")}
%% endif
    slide[(${{"plain": "tiles", "persistent": "min(tiles, 1056)", "chunked": "triton.cdiv(tiles, 4)"}[grid]},)](
        ${form.inputs | join(", ")}, y, y.numel(), channels, tiles, ${form.listed("in_{}")}, ${form.listed("out_{}")}, BLOCK=${block}, ${"ROWS=" ~ rows ~ ", " if space == "tile" else ""}num_warps=${warps}
    )
    return y
%% section separable
# family window_separable_triton where separable
# shape order = "inner_first", "outer_first"
# shape taps = "unrolled", "looped"
# pick block = 128, 256, 512, 1024, 2048
# pick warps = 2, 4, 8

%% set neutral = "float('-inf')" if form.op == "max" else "0.0"
import torch
import triton
import triton.language as tl


@triton.jit
def reduce(x_ptr, y_ptr, count, inner, in_extent, out_extent, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < count
    place = i // inner % out_extent
    source = x_ptr + (i // (inner * out_extent)) * in_extent * inner + i % inner
    acc = tl.full((BLOCK,), ${neutral}, tl.float32)
    for k in ${"tl.static_range" if taps == "unrolled" else "range"}(${form.taps[-1]}):
        at = ${form.input_place("place", "k")}
        value = tl.load(source + at * inner, mask=ok & (at >= 0) & (at < in_extent), other=${neutral})
        ${"acc = tl.maximum(acc, value)" if form.op == "max" else "acc += value"}
%% if form.op == "mean"
    acc = acc * ${1 / form.taps[-1]}
%% endif
    tl.store(y_ptr + i, acc, mask=ok)


def run(x):
    n, channels, ${form.listed("in_{}")} = x.shape
%% for axis in form.axes
    out_${axis} = ${form.output_extent(axis)}
%% endfor
%% for axis, extents, inner in form.passes(order == "outer_first")
    y = torch.empty((n, channels, ${extents}), device=x.device, dtype=x.dtype)
    reduce[(triton.cdiv(y.numel(), ${block}),)](
        x, y, y.numel(), ${inner}, in_${axis}, out_${axis}, BLOCK=${block}, num_warps=${warps}
    )
%% if not loop.last
    x = y
%% endif
%% endfor
    return y
