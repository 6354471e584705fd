import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r'''
<%% include "rowwise/grouped/templates/cuda.cu" %%>
''',
    names=(${exported}),
)


def run(x${", weight, bias" if affine else ""}):
    y = torch.empty_like(x)
    images, channels, plane = x.shape[0], x.shape[1], x.shape[2] * x.shape[3]
    rows = images * channels
%% if problem == "batch_norm"
    per_group = images
%% elif problem == "group_norm"
    per_group = channels // 8
%% elif problem == "instance_norm"
    per_group = 1
%% else
    per_group = rows
%% endif
    groups = rows // per_group
    vector = ${vector} if plane % ${vector} == 0 else 1
    share = ((plane + ${split - 1}) // ${split} + vector - 1) // vector * vector
%% if combine == "atomic"
    found = torch.zeros((groups, 2), dtype=torch.float32, device=x.device)
    final, counters = found, found
%% else
    found = torch.empty((rows, ${split}, 2), dtype=torch.float32, device=x.device)
%% if combine == "inline"
    final, counters = found, found
%% else
    final = torch.empty((groups, 2), dtype=torch.float32, device=x.device)
    counters = ${"torch.zeros(groups, dtype=torch.int32, device=x.device)" if combine == "last" else "found"}
%% endif
%% endif
    args = (x, found, counters, final, plane, channels, images, per_group, share)
    module.launch(f"measure<{vector}>", grid=(rows, ${split}), block=${threads}, args=args)
%% if combine == "finalize"
    module.launch("finalize", grid=groups, block=256, args=(found, final, per_group * ${split}))
%% endif
    span = ${apply_threads * apply_unroll} * vector
%% if walk == "strided"
    pieces = rows * ((plane + span - 1) // span)
    grid = min(pieces, torch.cuda.get_device_properties(x.device).multi_processor_count * ${per_sm})
%% else
    grid = (rows, (plane + span - 1) // span)
%% endif
    args = (x, ${"weight, bias" if affine else "x, x"}, y, final, rows, plane, channels, images, per_group,
            per_group * ${split})
    module.launch(f"apply<{vector}>", grid=grid, block=${apply_threads}, args=args)
    return y
