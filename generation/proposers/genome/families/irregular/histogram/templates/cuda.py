import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
<%% include "irregular/histogram/templates/cuda.cu" %%>
''')


def run(x, bins):
    count = x.numel()
    blocks = min(${waves} * 132, (count + ${threads - 1}) // ${threads})
%% if place == "shared" and gather == "atomic"
    out = torch.zeros(bins, dtype=torch.int32, device=x.device)
    shared = bins * ${4 * copies}
    module.launch("histogram", grid=blocks, block=${threads}, args=(x, out, count, bins), shared_bytes=shared)
%% else
%% if place == "shared"
    rows = blocks
    parts = torch.empty((rows, bins), dtype=torch.int32, device=x.device)
    shared = bins * ${4 * copies}
    module.launch("histogram", grid=blocks, block=${threads}, args=(x, parts, count, bins), shared_bytes=shared)
%% else
    rows = ${copies * 8}
    parts = torch.zeros((rows, bins), dtype=torch.int32, device=x.device)
    module.launch("histogram", grid=blocks, block=${threads}, args=(x, parts, count, bins))
%% endif
    out = torch.empty(bins, dtype=torch.int32, device=x.device)
    module.launch("add_parts", grid=(bins + 31) // 32, block=32, args=(parts, out, rows, bins))
%% endif
    return out
