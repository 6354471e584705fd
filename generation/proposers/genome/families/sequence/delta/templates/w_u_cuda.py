import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "sequence/delta/templates/w_u_cuda.cu" %%>
""")


def run(k, v, beta, a, g):
    batch, length, heads, width = k.shape
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    grid = (batch * (length // 64) * heads, ${1 if fusion == "together" else 2 * 64 // cols})
    module.launch("products", grid=grid, block=${threads}, args=(k, v, beta, a, g, w, u, heads))
    return w, u
