import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "irregular/spmv/templates/cuda.cu" %%>
""")


def run(starts, columns, values, x):
    rows = starts.numel() - 1
    entries = columns.numel()
%% if method in ("rows", "stride")
    y = torch.empty(rows, dtype=torch.float32, device=x.device)
    grid = (rows + ${threads // lanes - 1}) // ${threads // lanes}
%% if method == "stride"
    grid = min(grid, 132 * ${waves})
%% endif
%% else
    y = torch.zeros(rows, dtype=torch.float32, device=x.device)
    grid = (entries + ${threads - 1}) // ${threads}
%% endif
    module.launch("spmv", grid=grid, block=${threads}, args=(starts, columns, values, x, y, rows, entries))
    return y
