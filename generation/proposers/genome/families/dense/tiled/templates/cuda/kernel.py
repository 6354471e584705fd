import torch

from kbench.harness.cuda import CudaModule

%% set a, b = product.args[0], product.args[1]
%% set stats = [] if finish != "partial" else ["part"] if product.row == "sum" else ["peak", "part"]
%% set vectors = [] if finish == "separate" else product.vectors
module = CudaModule(r"""
<%% include "dense/tiled/templates/cuda/kernel.cu" %%>
""")


def run(${product.args | join(", ")}):
<%% include "dense/tiled/templates/shapes.py" %%>
    tiles_m = (M + ${tile.bm - 1}) // ${tile.bm}${" + offsets.numel()" if product.grouped else ""}
    tiles_n = (N + ${tile.bn - 1}) // ${tile.bn}
<%% include "dense/tiled/templates/allocations.py" %%>
%% if split_k > 1
    k_span = ((K + ${split_k - 1}) // ${split_k} + ${tile.bk - 1}) // ${tile.bk} * ${tile.bk}
%% endif
%% set tiles = "tiles_m * (tiles_m + 1) // 2" if order == "triangle" else "tiles_m * tiles_n"
%% set blocks = tiles if loop == "tile" else "min(" ~ tiles ~ ", " ~ most_blocks ~ ")"
%% set args = [a, b, "out" if finish == "fused" else "sums"] + stats + vectors | map(attribute="name") | list
%% set args = args + (["offsets", "offsets.numel()"] if product.grouped else [])
%% set args = args + ["M", "N", "K"] + (["k_span"] if split_k > 1 else [])
    module.launch(
        "product", grid=(${blocks}, ${"BATCH" if product.batched else 1}, ${split_k}), block=${tile.threads},
        args=(${args | join(", ")})${", shared_bytes=" ~ tile.shared_bytes if tile.shared_bytes else ""},
    )
%% if finish == "partial" and product.row == "softmax"
    module.launch("finish", grid=M, block=${finish_threads}, args=(sums, peak, part, out, M, N, tiles_n))
%% elif finish == "partial"
    module.launch("finish", grid=(M + 63) // 64, block=64, args=(${stats | join(", ")}, out, M, tiles_n))
%% elif finish == "separate"
%% set size = "BATCH * M * N" if product.batched else "M * N"
%% if product.row in ("", "group_norm")
%% set grid = "(" ~ size ~ " + " ~ (finish_threads - 1) ~ ") // " ~ finish_threads
%% elif rows == "warp"
%% set grid = "(M + " ~ (finish_threads // 32 - 1) ~ ") // " ~ finish_threads // 32
%% else
%% set grid = "M"
%% endif
%% set inputs = ["sums", "out"] + product.vectors | map(attribute="name") | list
    module.launch("finish", grid=${grid}, block=${finish_threads}, args=(${inputs | join(", ")}, ${size}, M, N))
%% endif
    return out
