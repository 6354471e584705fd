import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "sequence/prefill/templates/cuda.cu" %%>
""")


def run(q, k, v):
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
%% if method == "stored"
    kept = torch.empty((batch * heads, length, length), dtype=torch.float32, device=q.device)
%% else
    kept = q
%% endif
    scale = dim**-0.5${" * 1.4426950408889634" if base == "two" else ""}
    blocks = (length + ${16 * warps - 1}) // ${16 * warps}
%% if order == "rows"
    grid = (blocks, batch * heads)
%% else
    grid = (batch * heads, blocks)
%% endif
    shared = ${warps * 16 * (block + 8) * 6}
%% if method == "flash"
    shared += ${warps * 16 * 4} * (dim + 8)
%% endif
%% if stage
    shared += ${2 * block} * (dim + 8)
%% endif
    args = (q, k, v, out, kept, length, scale)
    module.launch(f"attend_{dim}", grid=grid, block=${warps * 32}, args=args, shared_bytes=shared)
    return out
