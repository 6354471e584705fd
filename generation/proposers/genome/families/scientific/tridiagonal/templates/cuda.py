import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "scientific/tridiagonal/templates/cuda.cu" %%>
""")


def run(lower, diagonal, upper, rhs):
    systems, size = rhs.shape
    x = torch.empty_like(rhs)
    ratios = torch.empty_like(rhs)
%% if method == "thread"
    grid = (systems + ${threads - 1}) // ${threads}
%% elif method == "staged"
    grid = (systems + 31) // 32
%% else
    grid = systems
%% endif
    args = (lower, diagonal, upper, rhs, ratios, x, systems, size)
    module.launch("solve", grid=grid, block=${threads}, args=args)
    return x
