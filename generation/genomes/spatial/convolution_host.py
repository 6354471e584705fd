%% macro launch()
%% if tile == "row" and rank > 1
p_blocks = n * ${form.names("px_{}")[:-1] | join(" * ")} * triton.cdiv(px_w, ${block_p})
%% else
p_blocks = n * triton.cdiv(${form.volume("px_{}")}, ${block_p})
%% endif
c_blocks = ${form.groups ~ " * " if form.groups > 1 else ""}triton.cdiv(${outer}, ${block_c})
tiles = p_blocks${"" if form.over_channels else " * c_blocks"}
%% if form.total
partial = torch.empty((tiles,), device=x.device, dtype=torch.float32)
%% endif
%% if stored
products, plane = c_in * ${form.tap_count}, ${form.volume("px_{}")}
gathered = torch.empty((n, products, plane), device=x.device, dtype=x.dtype)
columns[(n * triton.cdiv(plane, 512) * products,)](
    x, gathered, c_in, ${form.listed("in_{}")}, ${form.listed("px_{}")}, products, BLOCK_P=512
)
%% endif
%% set count = "tiles" ~ (" * " ~ splits if splitting else "")
convolve[(${"min(" ~ count ~ ", " ~ programs ~ ")" if persistent else count},)](
    ${"gathered" if stored else "x"}, weight, <%% for name in form.channel_inputs %%>${name}, <%% endfor %%>${"buffer" if finishing else "partial" if form.total else "y"}, ${sizes | join(", ")}, p_blocks, c_blocks, tiles, n, ${"products, plane, " if stored else ""}${form.listed("out_{}") ~ ", " if phased else ""}BLOCK_C=${block_c}, BLOCK_P=${block_p}, <%% if phased %%><%% for axis, count in form.loops %%><%% set first = "(phase_" ~ axis ~ " + " ~ form.padding ~ ") % " ~ form.stride %%>PHASE_${axis | upper}=phase_${axis}, FIRST_${axis | upper}=${first}, COUNT_${axis | upper}=(${count + form.stride - 1} - ${first}) // ${form.stride}, <%% endfor %%><%% endif %%>${"BLOCK_K=" ~ block_k ~ ', PRECISION="' ~ precision ~ '", ' if gemm else ""}num_warps=${warps}${", num_stages=" ~ stages if gemm else ""}
)
%% endmacro
<%% filter packed %%>
def run(${(("x", "weight") + full.channel_inputs) | join(", ")}):
<%% include "spatial/convolution_parts.cu#shapes" %%>
%% if finishing
    buffer = torch.empty((${splits}, n, c_out, ${form.listed("out_{}")}), device=x.device, dtype=torch.float32)
%% elif not form.total
    y = torch.empty((n, ${"1" if form.over_channels else "c_out"}, ${form.listed("out_{} // " ~ form.window if form.window > 1 else "out_{}")}), device=x.device, dtype=x.dtype)
%% endif
%% if phased
%% for axis in form.axes
${"    " * loop.index}for phase_${axis} in range(${form.stride}):
%% endfor
%% filter indent(4 * (rank + 1), true)
%% for axis in form.axes
px_${axis} = (out_${axis} - phase_${axis} + ${form.stride - 1}) // ${form.stride}
%% endfor
${launch()}
%% endfilter
%% else
%% for axis in form.axes
    px_${axis} = out_${axis}${" // " ~ form.window if form.window > 1 else ""}
%% endfor
${launch() | indent(4, true)}
%% endif
%% if finishing
%% set extra = full.channel_inputs | join(", ") ~ ", " if full.channel_inputs else ""
%% set tail = "SPLITS=" ~ splits ~ ", BLOCK=512, num_warps=4"
%% set raw = "n * c_out * " ~ full.volume("out_{}")
%% if full.window > 1
    px_h, px_w = out_h // ${full.window}, out_w // ${full.window}
%% endif
%% if full.total
    count = c_out * px_h * px_w
    parts = triton.cdiv(count, 512)
    partial = torch.empty((n, parts), device=x.device, dtype=torch.float32)
    finish[(n, parts)](buffer, ${extra}partial, count, c_out, ${raw}, out_h, out_w, px_h, px_w, ${tail})
    y = torch.empty((n,), device=x.device, dtype=x.dtype)
    total[(n,)](partial, y, parts, BLOCK=256)
%% else
%% set extents = "c_out, px_h, px_w" if full.window > 1 else ("1, " if full.over_channels else "c_out, ") ~ full.listed("out_{}")
    y = torch.empty((n, ${extents}), device=x.device, dtype=x.dtype)
    finish[(triton.cdiv(y.numel(), 512),)](buffer, ${extra}y, y.numel(), c_out, ${raw if full.window > 1 or full.over_channels else "y.numel()"}, ${"out_h, out_w, px_h, px_w" if full.window > 1 else full.volume("out_{}")}, ${tail})
%% endif
%% elif form.total
    y = torch.empty((n,), device=x.device, dtype=x.dtype)
    total[(n,)](partial, y, tiles // n, BLOCK=256)
%% endif
    return y
<%% endfilter %%>
