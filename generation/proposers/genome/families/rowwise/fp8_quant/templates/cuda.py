import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "rowwise/fp8_quant/templates/cuda.cu" %%>
""")


def run(x, group):
    tokens, hidden = x.shape
    groups = tokens * hidden // group
    out = torch.empty((tokens, hidden), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((tokens, hidden // group), dtype=torch.float32, device=x.device)
%% if method == "lanes"
    block = ${threads}
    grid = (groups + ${threads // lanes - 1}) // ${threads // lanes}
%% elif method == "block"
    block = 128
    grid = groups
%% else
    block = ${threads}
    per_block = ${threads // 32}
    module.launch("find_scales", grid=(groups + per_block - 1) // per_block, block=block, args=(x, scales, groups))
    grid = (groups * 32 + block - 1) // block
%% endif
%% if walk == "stride"
    grid = min(grid, 132 * ${waves})
%% endif
    module.launch("quantise_groups", grid=grid, block=block, args=(x, out, scales, groups))
    return out, scales
