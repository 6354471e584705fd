import torch

from kbench.harness.cuda import CudaModule

%% set kept = "__nv_bfloat16" if storage == "bfloat16" else "float"
module = CudaModule(r"""
<%% include "dense/triangle/templates/cuda.cu" %%>
""")


def run(x, mask, norm_weight, norm_bias, left_weight, right_weight, left_gate_weight, right_gate_weight,
        out_gate_weight, out_norm_weight, out_norm_bias, out_weight):
    batch, length, dim = x.shape[0], x.shape[1], x.shape[3]
    square = length * length
    pairs = batch * square
    lefts = torch.empty((batch, 128, length, length), dtype=torch.${storage}, device=x.device)
    rights = torch.empty((batch, 128, length, length), dtype=torch.${storage}, device=x.device)
    gates = torch.empty((pairs, 128), dtype=torch.${storage}, device=x.device)
    products = torch.empty((batch, 128, length, length), dtype=torch.float32, device=x.device)
    means = torch.empty(pairs, dtype=torch.float32, device=x.device)
    scales = torch.empty(pairs, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    module.launch("find_stats", grid=(pairs + 7) // 8, block=256, args=(x, means, scales, pairs, dim))
    args = (x, mask, means, scales, norm_weight, norm_bias, left_weight, right_weight, left_gate_weight,
            right_gate_weight, out_gate_weight, lefts, rights, gates, pairs, square, dim)
    module.launch("project", grid=((pairs + ${16 * each - 1}) // ${16 * each}, 8), block=256, args=args)
    wide = (length + ${16 * across - 1}) // ${16 * across}
%% if storage == "bfloat16" and product == "tensor"
    grid, block = (wide, (length + 63) // 64, batch * 128), 128
%% else
    grid, block = (wide, wide, batch * 128), 256
%% endif
    module.launch("multiply", grid=grid, block=block, args=(lefts, rights, products, length))
    args = (products, gates, out_norm_weight, out_norm_bias, out_weight, out, pairs, square, dim)
    module.launch("project_back", grid=(pairs + 31) // 32, block=256, args=args)
    return out
