import torch

from kbench.harness.cuda import CudaModule

%% set two_pass = stages == "two_pass"
module = CudaModule(r"""
<%% include "spatial/separable/templates/cuda.cu" %%>
""")


def run(x, depthwise, pointwise):
    n, c_in, in_h, in_w = x.shape
    c_out = pointwise.shape[0]
    px_h, px_w = in_h - 2, in_w - 2
    y = torch.empty((n, c_out, px_h, px_w), device=x.device, dtype=x.dtype)
%% if two_pass
    z = torch.empty((n, c_in, px_h, px_w), device=x.device, dtype=x.dtype)
    module.launch("filter_planes", grid=(z.numel() + 255) // 256, block=256, args=(x, depthwise, z, z.numel(), c_in, in_h, in_w, px_h, px_w))
%% endif
%% set blocks = "(px_h * px_w + " ~ (threads * tp - 1) ~ ") // " ~ threads * tp
%% set groups = "1" if stages == "per_block" else "(c_out + " ~ (tc - 1) ~ ") // " ~ tc
%% if stages == "per_block"
%% set shared = ", shared_bytes=" ~ 4 * threads * tp ~ " * c_in"
%% else
%% set shared = ", shared_bytes=" ~ 4 * tc ~ " * c_in" if weights == "shared" else ""
%% endif
    module.launch("mix", grid=(${blocks}, ${groups}, n), block=${threads}, args=(${"z" if two_pass else "x, depthwise"}, pointwise, y, c_in, c_out, in_h, in_w, px_h, px_w)${shared})
    return y
