import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "sequence/dequant/templates/cuda.cu" %%>
""")


def run(pages, scales, page_table):
    batch, width = page_table.shape
    heads, dim = pages.shape[2], pages.shape[3]
    out = torch.empty((batch, width * 16, heads, dim), dtype=torch.bfloat16, device=pages.device)
    per_page = 16 * heads
    lines = batch * width * per_page
    words = dim // ${vec}
%% if walk == "page"
    grid = batch * width
%% elif walk == "line"
    grid = (lines + ${threads // lanes - 1}) // ${threads // lanes}
%% elif walk == "flat"
    grid = (lines * words + ${threads - 1}) // ${threads}
%% else
    grid = min(${waves} * 132, (lines * words + ${threads - 1}) // ${threads})
%% endif
    module.launch("dequant", grid=grid, block=${threads}, args=(pages, scales, page_table, out, lines, per_page, dim))
    return out
