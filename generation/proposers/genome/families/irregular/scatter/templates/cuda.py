import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
<%% include "irregular/scatter/templates/cuda.cu" %%>
''')


def run(source, index, rows):
    items, dim = source.shape
%% if method in ("lists", "warp_lists")
    out = torch.empty((rows, dim), dtype=torch.float32, device=source.device)
    counts = torch.zeros(rows, dtype=torch.int32, device=source.device)
    starts = torch.empty(rows, dtype=torch.int32, device=source.device)
    cursor = torch.empty(rows, dtype=torch.int32, device=source.device)
    lists = torch.empty(items, dtype=torch.int32, device=source.device)
    blocks = (items + 255) // 256
    module.launch("count", grid=blocks, block=256, args=(index, counts, items))
    module.launch("find_starts", grid=1, block=1024, args=(counts, starts, cursor, rows))
    module.launch("fill_lists", grid=blocks, block=256, args=(index, cursor, lists, items))
%% if method == "lists"
    grid = rows
%% else
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% endif
    module.launch("sum_rows", grid=grid, block=${threads}, args=(source, starts, counts, lists, out, rows, dim))
%% else
%% if zero == "kernel"
    out = torch.empty((rows, dim), dtype=torch.float32, device=source.device)
    module.launch("clear", grid=(rows * dim // 4 + 255) // 256, block=256, args=(out, rows * dim // 4))
%% else
    out = torch.zeros((rows, dim), dtype=torch.float32, device=source.device)
%% endif
    words = dim // ${4 if vector else 1}
%% if method == "flat"
    grid = (items * words + ${threads - 1}) // ${threads}
%% elif method == "stride"
    grid = min(132 * ${unroll * 4}, (items * words + ${threads - 1}) // ${threads})
%% elif method == "warp"
    grid = (items + ${threads // 32 - 1}) // ${threads // 32}
%% else
    grid = items
%% endif
    module.launch("scatter", grid=grid, block=${threads}, args=(source, index, out, items, dim))
%% endif
    return out
