import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
<%% include "irregular/gather/templates/cuda.cu" %%>
''')


def run(ids, table):
    tokens = ids.numel()
    out = torch.empty((tokens, table.shape[1]), dtype=table.dtype, device=table.device)
    words = table.shape[1] * 2 // ${{"unsigned short": 2, "unsigned": 4, "uint2": 8, "uint4": 16}[word]}
%% if walk == "block"
    grid = tokens
%% elif walk == "warp"
    grid = (tokens + ${threads // 32 - 1}) // ${threads // 32}
%% elif walk == "rows"
    grid = (tokens + ${unroll - 1}) // ${unroll}
%% elif walk == "flat"
    grid = (tokens * words + ${threads - 1}) // ${threads}
%% else
    grid = min(${waves} * 132, (tokens * words + ${threads - 1}) // ${threads})
%% endif
    module.launch("gather", grid=grid, block=${threads}, args=(ids, table, out, tokens, words))
    return out
