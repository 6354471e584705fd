import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r'''
<%% include "rowwise/elementwise/templates/cuda.cu" %%>
''',
    names=(${exported}),
)


def run(${names}):
%% if problem == "swiglu"
    width = x.shape[1] // 2
    y = torch.empty((x.shape[0], width), dtype=x.dtype, device=x.device)
    n, heads, length = y.numel(), 1, 1
    packed = width % ${vector} == 0
%% elif problem == "geglu"
    y = torch.empty_like(gate)
    n, width, heads, length = y.numel(), gate.shape[1], 1, 1
    packed = ${"width" if walk == "rows" else "n"} % ${vector} == 0
%% elif problem == "rope"
    y = torch.empty_like(x)
    length, heads, width = x.shape[1], x.shape[2], x.shape[3] // 2
    n = x.numel()${" // 2" if pairs else ""}
    packed = width % ${vector} == 0
%% else
    y = torch.empty_like(x)
    n, width, heads, length = x.numel(), x.shape[1], 1, 1
    packed = ${"width" if walk == "rows" else "n"} % ${vector} == 0
%% endif
    vector = ${vector} if packed else 1
%% if walk == "rows"
    grid = n // width
%% else
    grid = (n // vector + ${per_block - 1}) // ${per_block}
%% endif
%% if walk == "strided"
    grid = min(grid, torch.cuda.get_device_properties(y.device).multi_processor_count * ${per_sm})
%% endif
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=(${names}, y, n, width, heads, length))
    return y
