import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "irregular/routing/templates/cuda.cu" %%>
""")


def run(logits, k):
    tokens, count = logits.shape
    weights = torch.empty((tokens, k), dtype=torch.float32, device=logits.device)
    experts = torch.empty((tokens, k), dtype=torch.int32, device=logits.device)
%% if method == "lanes"
    per_block = ${threads // lanes}
%% elif method == "rank"
    per_block = ${threads // 32}
%% else
    per_block = ${threads}
%% endif
    grid = (tokens + per_block - 1) // per_block
    module.launch("route", grid=grid, block=${threads}, args=(logits, weights, experts, tokens, count, k))
    return weights, experts
