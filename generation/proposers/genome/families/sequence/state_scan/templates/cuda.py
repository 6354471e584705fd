import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "sequence/state_scan/templates/cuda.cu" %%>
""")


def run(u, delta, a, b, c, skip):
    batch, channels, length = u.shape
    y = torch.empty_like(u)
%% if method == "time"
    grid = (channels, batch)
%% else
    grid = ((channels + ${threads // lanes - 1}) // ${threads // lanes}, batch)
%% endif
    module.launch("scan", grid=grid, block=${threads}, args=(u, delta, a, b, c, skip, y, channels, length))
    return y
