import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r'''
<%% include "rowwise/norms/templates/cuda.cu" %%>
''',
    names=(${exported}),
)


def run(${arguments}):
    y = torch.empty_like(x)
%% if problem == "rmsnorm_residual"
    hidden = torch.empty_like(x)
    rows, cols = x.shape
%% elif problem == "instance_norm"
    rows, cols = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]
%% elif problem == "group_norm"
    plane = x.shape[2] * x.shape[3]
    per_group = x.shape[1] // 8
    rows, cols = x.shape[0] * 8, per_group * plane
%% else
    rows, cols = x.shape
%% endif
    vector = ${vector} if cols % ${vector} == 0 else 1
%% if plan == "split"
    share = ((cols + ${split - 1}) // ${split} + vector - 1) // vector * vector
    found = torch.empty((rows, ${split}, 2), dtype=torch.float32, device=x.device)
    args = (${names}, found, rows, cols, share${shape_names})
    module.launch(f"measure<{vector}>", grid=(rows, ${split}), block=${threads}, args=args)
    module.launch(f"apply<{vector}>", grid=(rows, ${split}), block=${threads}, args=args)
%% else
%% if plan == "warp"
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% elif schedule == "persistent"
    grid = min(rows, torch.cuda.get_device_properties(x.device).multi_processor_count * ${per_sm})
%% else
    grid = rows
%% endif
    args = (${names}, rows, cols${shape_names})
%% if plan == "shared"
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=args, shared_bytes=cols * 4)
%% else
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=args)
%% endif
%% endif
    return ${"y, hidden" if problem == "rmsnorm_residual" else "y"}
