import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "dense/int4/templates/cuda.cu" %%>
""")


def run(x, packed, scale):
    M, K = x.shape
    N = packed.shape[0]
    y = torch.empty((M, N), device=x.device, dtype=x.dtype)
%% if split_k > 1
    part = torch.empty((${split_k}, M, N), device=x.device, dtype=torch.float32)
%% endif
    module.launch(
        "product", grid=((N + ${columns - 1}) // ${columns}, (M + 15) // 16, ${split_k}), block=${threads},
        args=(x, packed, scale, ${"part" if split_k > 1 else "y"}, M, N, K),
    )
%% if split_k > 1
    module.launch("join", grid=(M * N + 255) // 256, block=256, args=(part, y, M * N))
%% endif
    return y
