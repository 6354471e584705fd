import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "dense/scaling/templates/cuda.cu" %%>
""")


%% if diagonal
def run(d, a):
    s = d
%% else
def run(a, s):
    s = float(s)
%% endif
    out = torch.empty_like(a)
    rows, columns = a.shape
%% if walk in ("flat", "flat_stride")
    blocks = (a.numel() // ${vector} + ${threads * items - 1}) // ${threads * items}
    grid = ${"min(blocks, %d)" % programs if walk == "flat_stride" else "blocks"}
%% elif walk == "row"
    grid = rows
%% elif walk == "row_warp"
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% else
    grid = ((columns // ${vector} + ${threads * items - 1}) // ${threads * items}, rows)
%% endif
    module.launch("scale", grid=grid, block=${threads}, args=(a, s, out, rows, columns))
    return out
