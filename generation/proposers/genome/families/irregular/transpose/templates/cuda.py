import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
<%% include "irregular/transpose/templates/cuda.cu" %%>
''')


def run(x):
%% if problem == "transpose"
    rows, cols = x.shape
    batch = 1
    y = torch.empty((cols, rows), dtype=x.dtype, device=x.device)
%% else
    batch, rows, heads, dim = x.shape
    cols = heads * dim
    y = torch.empty((batch, heads, dim, rows), dtype=x.dtype, device=x.device)
%% endif
    tiles = ((rows + ${tile - 1}) // ${tile}) * ((cols + ${tile - 1}) // ${tile})
%% if order == "persistent"
    tiles = min(tiles, max(1, ${waves} * 132 // batch))
%% endif
    module.launch("transpose", grid=(tiles, batch), block=${threads}, args=(x, y, rows, cols))
    return y
