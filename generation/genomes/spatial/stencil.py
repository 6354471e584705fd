# Stencils in Triton: flat cells, rows, tiles, and tiles that march along the slowest axis.
# facts form = spatial/stencils.toml
# let form = Stencil(form)
# let result = without_suffix(form.result)
# family stencil_triton where True
# shape space = "flat", "row", "tile", "march", "march"
# shape grid = "plain", "persistent"
# shape order = "across_fast", "down_fast"
# shape sums = "named", "running"
# pick store = "plain", "streamed"
# pick block = 32, 64, 128, 256, 512, 1024
# pick rows = 2, 4, 8, 16
# pick steps = 4, 8, 16, 32
# pick programs = 528, 1056, 2112
# pick warps = 1, 2, 4, 8
# let tiled = space == "tile" or (space == "march" and form.dimensions == 3)
# refuse not tiled and rows != 2: this space has no rows
# refuse space != "march" and steps != 4: only a march has steps
# refuse space == "flat" and order != "across_fast": flat cells have one order
# refuse grid == "plain" and programs != 528: programs matters only to a persistent grid
# let each = block * (rows if tiled else 1) // (32 * warps)
# refuse not 1 <= each <= (8 if form.dimensions == 3 else 16): {each} cells per thread
# refuse form.dimensions == 3 and space != "flat" and block > 256: a row is shorter than the block

import torch
import triton
import triton.language as tl


%% set sizes = form.sizes | join(", ")
%% set slow = form.axes[0]
%% set deep = form.dimensions == 3
%% set names = ["BLOCK"] + (["ROWS"] if space == "tile" or (space == "march" and deep) else []) + (["STEPS"] if space == "march" else [])
%% macro load(axis, distance, name="u")
%% if distance > 0
%% set inside = " & (" ~ axis ~ " + " ~ distance ~ " < size_" ~ axis ~ ")"
%% else
%% set inside = " & (" ~ axis ~ " >= " ~ -distance ~ ")" if distance else ""
%% endif
tl.load(${name}_ptr + ${form.place(axis, distance)}, mask=ok${inside}, other=0.0)
%%- endmacro
%% macro plane(at)
tl.load(u_ptr + ${form.nest(["(" ~ at ~ ")"] + form.axes[1:] | list)}, mask=inside & (${at} >= 0) & (${at} < size_${slow}), other=0.0)
%%- endmacro
%% macro split_number(rows)
<%# The tile's place across and its row of tiles, of which there are `rows`. %>
%% if order == "across_fast"
across = tl.cdiv(size_w, BLOCK)
column = number % across
row = number // across
%% else
rows = ${rows}
column = number // rows
row = number % rows
%% endif
%% endmacro
%% macro answer(held="")
<%# From coordinates to the store; neighbours along the axis `held` are there already. %>
%% if not held
u = ${load("w", 0)}
%% endif
%% if sums == "named"
%% for axis, distance in form.neighbours if axis != held
${form.name(axis, distance)} = ${load(axis, distance)}
%% endfor
%% endif
%% for reach in range(1, form.radius + 1)
%% set total = ["near", "far"][reach - 1]
%% set ring = form.neighbours | selectattr(1, "in", (reach, -reach)) | list
%% if sums == "named"
${total} = <%% for axis, distance in ring %%>${form.name(axis, distance)}${"" if loop.last else " + "}<%% endfor +%%>
%% else
%% for axis, distance in ring
${total} ${"=" if loop.first else "+="} ${form.name(axis, distance) if axis == held else load(axis, distance)}
%% endfor
%% endif
%% endfor
%% for name in form.fields[1:]
${name} = ${load("w", 0, name)}
%% endfor
v = ${result}
tl.store(v_ptr + ${form.place()}, v, mask=ok${', cache_modifier=".cs"' if store == "streamed" else ""})
%% endmacro
%% macro rows_of_tiles(inside)
w = (column * BLOCK + tl.arange(0, BLOCK))[None, :]
down = tl.cdiv(size_h, ROWS)
h = (row % down * ROWS + tl.arange(0, ROWS))[:, None]
${inside} = (w < size_w) & (h < size_h)
%% endmacro
<%% filter packed %%>
@triton.jit
def step_field(${form.fields | join("_ptr, ")}_ptr, v_ptr, <%% for name in form.scalars %%>${name}, <%% endfor %%>count, tiles, ${sizes}<%% for name in names %%>, ${name}: tl.constexpr<%% endfor %%>):
%% if grid == "persistent"
    for number in range(tl.program_id(0), tiles, tl.num_programs(0)):
%% else
    number = tl.program_id(0)
%% endif
%% filter indent(8 if grid == "persistent" else 4, true)
%% if space == "flat"
i = number * BLOCK + tl.arange(0, BLOCK)
ok = i < count
w = i % size_w
h = i // size_w${" % size_h" if deep else ""}
%% if deep
d = i // (size_w * size_h)
%% endif
${answer()}
%% elif space == "row"
${split_number("size_h" ~ (" * size_d" if deep else ""))}
w = column * BLOCK + tl.arange(0, BLOCK)
h = row % size_h + tl.zeros_like(w)
ok = w < size_w
%% if deep
d = row // size_h + tl.zeros_like(w)
%% endif
${answer()}
%% elif space == "tile"
${split_number("tl.cdiv(size_h, ROWS)" ~ (" * size_d" if deep else ""))}
${rows_of_tiles("ok")}
%% if deep
d = row // down + tl.zeros_like(w)
%% endif
${answer()}
%% else
<%# A tile of the faster axes walks STEPS cells along the slowest, its neighbours there kept in registers. %>
%% if deep
${split_number("tl.cdiv(size_h, ROWS) * tl.cdiv(size_d, STEPS)")}
${rows_of_tiles("inside")}
first = row // down * STEPS + tl.zeros_like(w)
%% else
${split_number("tl.cdiv(size_h, STEPS)")}
w = column * BLOCK + tl.arange(0, BLOCK)
inside = w < size_w
first = row * STEPS + tl.zeros_like(w)
%% endif
%% for distance in range(-form.radius, form.radius)
${form.name(slow, distance)} = ${plane("first " ~ ("- " ~ -distance if distance < 0 else "+ " ~ distance))}
%% endfor
for step in range(STEPS):
    ${slow} = first + step
    ok = inside & (${slow} < size_${slow})
    ${form.name(slow, form.radius)} = ${plane(slow ~ " + " ~ form.radius)}
${answer(slow) | indent(4, true)}
%% for distance in range(-form.radius, form.radius)
    ${form.name(slow, distance)} = ${form.name(slow, distance + 1)}
%% endfor
%% endif
%% endfilter
<%% endfilter %%>


def run(${(form.fields + form.scalars) | join(", ")}):
    ${sizes} = u.shape
    v = torch.empty_like(u)
%% set across, down = "triton.cdiv(size_w, " ~ block ~ ")", "triton.cdiv(size_h, " ~ rows ~ ")"
%% if space == "flat"
    tiles = triton.cdiv(v.numel(), ${block})
%% elif space == "march"
    tiles = ${across}${" * " ~ down if deep else ""} * triton.cdiv(size_${slow}, ${steps})
%% else
    tiles = ${across} * ${down if space == "tile" else "size_h"}${" * size_d" if deep else ""}
%% endif
%% set values = {"BLOCK": block, "ROWS": rows, "STEPS": steps}
    step_field[(${"min(tiles, " ~ programs ~ ")" if grid == "persistent" else "tiles"},)](
        ${form.fields | join(", ")}, v, <%% for name in form.scalars %%>${name}, <%% endfor %%>v.numel(), tiles, ${sizes}<%% for name in names %%>, ${name}=${values[name]}<%% endfor %%>, num_warps=${warps}
    )
    return v
