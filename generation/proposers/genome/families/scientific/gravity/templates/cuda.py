import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "scientific/gravity/templates/cuda.cu" %%>
""")


def run(positions, masses, softening):
    count = masses.numel()
    share = (count + ${splits - 1}) // ${splits}
    grid = ((count + ${threads * each - 1}) // ${threads * each}, ${splits})
%% if gather == "atomic"
    out = torch.zeros((count, 3), dtype=torch.float32, device=masses.device)
%% else
    out = torch.empty((${splits}, count, 3), dtype=torch.float32, device=masses.device)
%% endif
    args = (positions, masses, out, count, share, softening)
    module.launch("forces", grid=grid, block=${threads}, args=args)
%% if gather == "atomic"
    return out
%% elif splits > 1
    total = torch.empty((count, 3), dtype=torch.float32, device=masses.device)
    module.launch("add_parts", grid=(count * 3 + 255) // 256, block=256, args=(out, total, count * 3))
    return total
%% else
    return out.view(count, 3)
%% endif
