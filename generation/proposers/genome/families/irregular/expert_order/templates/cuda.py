import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "irregular/expert_order/templates/cuda.cu" %%>
""")


def run(x, experts, num_experts):
    hidden = x.shape[1]
    count, choices = experts.shape
    pairs = count * choices
    chunks = (pairs + ${chunk - 1}) // ${chunk}
    permuted = torch.empty((pairs, hidden), dtype=x.dtype, device=x.device)
    tokens = torch.empty(pairs, dtype=torch.int32, device=x.device)
    slots = torch.empty(pairs, dtype=torch.int32, device=x.device)
    totals = torch.empty(num_experts, dtype=torch.int32, device=x.device)
    counts = torch.empty((chunks, num_experts), dtype=torch.int32, device=x.device)
    module.launch("count", grid=chunks, block=${chunk}, args=(experts, counts, pairs, num_experts))
    module.launch("scan", grid=1, block=256, args=(counts, totals, chunks, num_experts))
    args = (experts, counts, slots, tokens, pairs, choices, num_experts)
    module.launch("place_pairs", grid=chunks, block=${chunk}, args=args)
    words = hidden * 2 // ${{"unsigned short": 2, "unsigned": 4, "uint2": 8, "uint4": 16}[word]}
%% if move == "block"
    grid = pairs
%% elif move == "warp"
    grid = (pairs + ${threads // 32 - 1}) // ${threads // 32}
%% elif move == "flat"
    grid = (pairs * words + ${threads - 1}) // ${threads}
%% else
    grid = count
%% endif
    args = (x, tokens, slots, permuted, pairs, choices, words)
    module.launch("move_rows", grid=grid, block=${threads}, args=args)
    return permuted, tokens, totals
