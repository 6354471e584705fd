%% set grouped = "offsets_ptr, GROUPS, " if product.grouped else ""
@triton.jit
def product(a_ptr, b_ptr, c_ptr, <%% for name in stats + vectors %%>${name}_ptr, <%% endfor %%>${grouped}M, N, K, ${"k_span, " if split_k > 1 else ""}BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
%% if product.batched
    batch = tl.program_id(1)
    a_ptr += batch * M * K
    b_ptr += batch * K * N
    c_ptr += batch * M * N
%% endif
    tiles_m = tl.cdiv(M, BM)${" + GROUPS" if product.grouped else ""}
    tiles_n = tl.cdiv(N, BN)
%% if loop == "tile"
    tile = tl.program_id(0)
%% else
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
%% endif
%% filter indent(4 if loop == "tile" else 8, true)
<%% include "dense/tiled/templates/triton/order.py" %%>
<%% include "dense/tiled/templates/triton/ranges.py" %%>
<%% include "dense/tiled/templates/triton/sums.py" %%>
<%% include "dense/tiled/templates/triton/tile_finish.py" %%>
%% endfilter
