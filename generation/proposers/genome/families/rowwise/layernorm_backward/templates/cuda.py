import torch

from kbench.harness.cuda import CudaModule

%% set held = plan in ("partials", "atomic")
module = CudaModule(
    r'''
<%% include "rowwise/layernorm_backward/templates/cuda.cu" %%>
''',
    names=(${exported}),
)


def run(grad, x, weight):
    rows, cols = x.shape
    out = torch.empty_like(x)
    vector = ${vector} if cols % ${vector} == 0 else 1
%% if held
    grid = min(rows, torch.cuda.get_device_properties(x.device).multi_processor_count * ${per_sm})
%% if plan == "partials"
    one = torch.empty((grid, cols), dtype=torch.float32, device=x.device)
    two = torch.empty((grid, cols), dtype=torch.float32, device=x.device)
    to_weight, to_bias = torch.empty_like(weight), torch.empty_like(weight)
%% else
    to_weight, to_bias = torch.zeros_like(weight), torch.zeros_like(weight)
    one, two = to_weight, to_bias
%% endif
    args = (grad, x, weight, out, one, two, rows, cols)
    module.launch(f"rows_kernel<{vector}>", grid=grid, block=${threads}, args=args)
%% if plan == "partials"
    args = (one, two, to_weight, to_bias, grid, cols)
    module.launch("columns_kernel", grid=(cols + 31) // 32, block=(32, ${down}), args=args)
%% endif
%% else
    one = torch.empty(rows, dtype=torch.float32, device=x.device)
    two = torch.empty(rows, dtype=torch.float32, device=x.device)
    to_weight, to_bias = torch.zeros_like(weight), torch.zeros_like(weight)
    grid = ${warp_grid}
    args = (grad, x, weight, out, one, two, rows, cols)
    module.launch(f"rows_kernel<{vector}>", grid=grid, block=${threads}, args=args)
    share = (rows + ${split - 1}) // ${split}
    args = (grad, x, one, two, to_weight, to_bias, rows, cols, share)
    module.launch("columns_kernel", grid=((cols + 31) // 32, ${split}), block=(32, ${down}), args=args)
%% endif
    return out, to_weight, to_bias
