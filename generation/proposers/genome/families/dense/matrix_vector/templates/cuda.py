import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "dense/matrix_vector/templates/cuda.cu" %%>
""")


def run(a, x):
    M, K = a.shape
    y = torch.empty((M, 1), device=a.device, dtype=a.dtype)
    blocks = (M + ${per_block - 1}) // ${per_block}
%% if parts == 1
    module.launch("rows_times_vector", grid=blocks, block=${threads}, args=(a, x, y, M, K))
%% elif last
    part = torch.empty((${parts}, M), device=a.device, dtype=a.dtype)
    count = torch.zeros((M,), device=a.device, dtype=torch.int32)
    module.launch("rows_times_vector", grid=(blocks, ${parts}), block=${threads}, args=(a, x, y, part, count, M, K))
%% else
    part = torch.empty((${parts}, M), device=a.device, dtype=a.dtype)
    module.launch("rows_times_vector", grid=(blocks, ${parts}), block=${threads}, args=(a, x, part, M, K))
    module.launch("join", grid=(M + 127) // 128, block=128, args=(part, y, M))
%% endif
    return y
