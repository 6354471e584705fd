import torch

from kbench.harness.cuda import CudaModule

%% set paged = problem == "paged_attention_decode"
%% set grouped = problem == "gqa_decode"
module = CudaModule(r"""
<%% include "sequence/decode/templates/cuda.cu" %%>
""")


%% if paged
def run(q, k_pages, v_pages, page_table, context_lengths):
    k, v, table, lengths = k_pages, v_pages, page_table, context_lengths
    length = page_table.shape[1] * 16
    kv_heads = k.shape[2]
%% else
def run(q, k, v):
    table, lengths = q, q
%% if grouped
    length, kv_heads = k.shape[1], k.shape[2]
%% else
    kv_heads, length = k.shape[1], k.shape[2]
%% endif
%% endif
    batch, heads, dim = q.shape
    out = torch.empty_like(q)
    group = ${"heads // kv_heads" if grouped and sharing == "group" else "1"}
    parts = torch.empty((batch * heads, ${splits}, dim), dtype=torch.float32, device=q.device)
    stats = torch.empty((batch * heads, ${splits}, 2), dtype=torch.float32, device=q.device)
    args = (q, k, v, table, lengths, out, parts, stats, length, heads, kv_heads, dim**-0.5)
    grid = (batch * heads // group, ${splits})
    shared = ${"0" if method == "lanes" else "(length + %d) // %d * 4" % (splits - 1, splits)}
    module.launch(f"attend_{dim}_{group}", grid=grid, block=${threads}, args=args, shared_bytes=shared)
%% if splits > 1
    module.launch("combine", grid=batch * heads, block=dim, args=(parts, stats, out, dim))
%% endif
    return out
