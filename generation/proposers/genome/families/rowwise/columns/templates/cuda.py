import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r'''
<%% include "rowwise/columns/templates/cuda.cu" %%>
''',
    names=(${exported}),
)


def run(x):
    batch, length = x.shape[0], x.shape[1]
    width = x.numel() // (batch * length)
%% set maker = "zeros" if combine == "atomic" else "empty"
%% if problem == "rms_norm"
    y = torch.empty_like(x)
%% elif problem == "sum_reduce"
    y = torch.${maker}((batch, 1, width), dtype=torch.float32, device=x.device)
%% elif pair
    y = torch.empty((batch, width), dtype=torch.int64, device=x.device)
%% else
    y = torch.${maker}((batch, width), dtype=torch.float32, device=x.device)
%% endif
    vector = ${vector} if width % ${vector} == 0 else 1
    share = (length + ${parts_count - 1}) // ${parts_count}
%% if combine == "second"
    values = torch.empty((batch, ${parts_count}, width), dtype=torch.float32, device=x.device)
    places = torch.empty((batch, ${parts_count}, width), dtype=torch.int32, device=x.device)
%% elif finish == "second"
    values = torch.empty((batch, width), dtype=torch.float32, device=x.device)
    places = values
%% else
    values, places = x, x
%% endif
    columns = (width + ${across} * vector - 1) // (${across} * vector)
    grid = (${"columns, batch" if order == "columns" else "batch, columns"}, ${parts_count})
    args = (x, y, values, places, length, width, share)
    module.launch(f"kernel<{vector}>", grid=grid, block=(${across}, ${down}), args=args)
%% if combine == "second"
    args = (y, values, places, length, width, ${parts_count})
    module.launch("combine", grid=((width + 127) // 128, batch), block=128, args=args)
%% endif
%% if finish == "second"
    grid = (batch * length, (width + 256 * vector - 1) // (256 * vector))
    module.launch(f"scale<{vector}>", grid=grid, block=256, args=(x, y, values, length, width))
%% endif
    return y
