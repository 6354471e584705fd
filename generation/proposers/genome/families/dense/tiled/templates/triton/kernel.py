import torch
import triton
import triton.language as tl

<%% include "dense/tiled/templates/triton/vectors.py" %%>
%% set a, b = product.args[0], product.args[1]
%% set stats = [] if finish != "partial" else ["part"] if product.row == "sum" else ["peak", "part"]
%% set vectors = [] if finish == "separate" else product.vectors | map(attribute="name") | list
<%% filter packed %%>
<%% include "dense/tiled/templates/triton/product.py" %%>
<%% endfilter %%>

<%% if finish != "fused" %%>
<%% filter packed %%>
<%% include "dense/tiled/templates/triton/finish.py" %%>
<%% endfilter %%>

<%% endif %%>
def run(${product.args | join(", ")}):
<%% include "dense/tiled/templates/shapes.py" %%>
    tiles_m = triton.cdiv(M, ${block_m})${" + offsets.numel()" if product.grouped else ""}
    tiles_n = triton.cdiv(N, ${block_n})
%% if split_k > 1
    k_span = triton.cdiv(triton.cdiv(K, ${split_k}), ${block_k}) * ${block_k}
%% endif
<%% include "dense/tiled/templates/allocations.py" %%>
%% set tiles = "tiles_m * (tiles_m + 1) // 2" if order == "triangle" else "tiles_m * tiles_n"
%% set programs = tiles if loop == "tile" else "min(" ~ tiles ~ ", " ~ most_programs ~ ")"
%% set view = ".view(torch.uint8)" if product.dtype == "float8_e4m3fn" else ""
%% set args = [a ~ view, b ~ view, "out" if finish == "fused" else "sums"] + stats + vectors
%% set args = args + (["offsets", "offsets.numel()"] if product.grouped else [])
%% set args = args + ["M", "N", "K"] + (["k_span"] if split_k > 1 else [])
    product[(${programs}, ${"BATCH" if product.batched else 1}, ${split_k})](
        ${args | join(", ")},
        BM=${block_m}, BN=${block_n}, BK=${block_k}, num_warps=${warps}, num_stages=${stages},
    )
%% if finish == "partial" and product.row == "sum"
    finish[(triton.cdiv(M, 32),)](part, out, M, tiles_n, BLOCK=32, num_warps=1)
%% elif finish == "partial" and product.row == "softmax"
    finish[(M,)](sums, peak, part, out, M, N, tiles_n, BLOCK=${finish_block}, num_warps=4)
%% elif finish == "partial"
    finish[(M,)](peak, part, out, M, tiles_n, BLOCK=${finish_block}, num_warps=1)
%% elif finish == "separate"
%% set inputs = ["sums", "out"] + product.vectors | map(attribute="name") | list + ["M", "N"]
%% if product.row and product.row != "group_norm"
%% set block = "triton.next_power_of_2(N)" if rows == "whole" else finish_block
    finish[(M,)](${inputs | join(", ")}, BLOCK=${block}, num_warps=4)
%% else
    finish[(triton.cdiv(M * N, ${finish_block}), ${"BATCH" if product.batched else 1})](${inputs | join(", ")}, BLOCK=${finish_block}, num_warps=4)
%% endif
%% endif
    return out
