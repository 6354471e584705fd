import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r'''
<%% include "rowwise/scan/templates/rows_cuda.cu" %%>
''',
    names=(${exported}),
)


def run(x${", mask" if masked else ""}):
    y = torch.empty_like(x)
    rows, cols = x.shape
    vector = ${vector} if cols % ${vector} == 0 else 1
%% if plan == "warp"
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=(${names}, y, rows, cols))
%% elif plan == "staged"
    module.launch(f"kernel<{vector}>", grid=rows, block=${threads}, args=(${names}, y, rows, cols))
%% elif plan == "two"
    share = ((cols + ${split - 1}) // ${split} + vector - 1) // vector * vector
    found = torch.empty((rows, ${split}), dtype=torch.float32, device=x.device)
    grid = (rows, ${split})
    module.launch(f"totals<{vector}>", grid=grid, block=${threads}, args=(${names}, found, rows, cols, share))
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=(${names}, y, found, rows, cols, share))
%% else
    grid = rows
%% if schedule == "persistent"
    grid = min(rows, torch.cuda.get_device_properties(x.device).multi_processor_count * ${per_sm})
%% endif
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=(${names}, y, x, rows, cols, cols))
%% endif
    return y
