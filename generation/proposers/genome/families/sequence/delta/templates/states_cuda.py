import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "sequence/delta/templates/states_cuda.cu" %%>
""")


def run(k, w, u, g):
    batch, length, heads, width = k.shape
    h = torch.empty((batch, length // 64, heads, width, u.shape[3]), dtype=torch.float32, device=k.device)
    v = torch.empty_like(u)
    grid = (${64 // cols}, batch * heads)
    module.launch("states", grid=grid, block=${threads}, args=(k, w, u, g, h, v, length, heads))
    return h, v
