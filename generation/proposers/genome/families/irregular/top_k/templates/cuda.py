import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "irregular/top_k/templates/cuda.cu" %%>
""")


def run(x, k):
    rows, cols = x.shape
    values = torch.empty((rows, k), dtype=torch.float32, device=x.device)
    places = torch.empty((rows, k), dtype=torch.int32, device=x.device)
%% if method == "warp"
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% else
    grid = rows
%% endif
%% if method == "staged"
    shared = cols * 4
%% else
    shared = 0
%% endif
    module.launch("top_k", grid=grid, block=${threads}, args=(x, values, places, rows, cols, k), shared_bytes=shared)
    return values, places
