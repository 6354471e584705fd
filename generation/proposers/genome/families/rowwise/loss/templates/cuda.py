import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r'''
<%% include "rowwise/loss/templates/cuda.cu" %%>
''',
    names=(${exported}),
)


def run(${names}):
    rows, cols = ${lead}.shape
%% if flat
    n = rows * cols
    vector = ${vector} if n % ${vector} == 0 else 1
    scale = 1.0 / ${"rows" if problem == "kl_div_loss" else "n"}
    first, second = n, cols
%% if plan == "blocks"
    count = (n // vector + ${threads * unroll - 1}) // ${threads * unroll}
%% else
    count = (n // vector + ${threads - 1}) // ${threads}
%% endif
%% else
    vector = ${vector} if cols % ${vector} == 0 else 1
    scale = 1.0 / rows
    first, second = rows, cols
%% if plan == "warp"
    count = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% else
    count = rows
%% endif
%% endif
%% if not (flat and plan == "blocks") and not (not flat and schedule == "grid")
    count = min(count, torch.cuda.get_device_properties(${lead}.device).multi_processor_count * ${per_sm})
%% endif
%% if finish == "atomic"
    loss = torch.zeros((), dtype=torch.float32, device=${lead}.device)
    parts, counter = loss, loss
%% else
    loss = torch.empty((), dtype=torch.float32, device=${lead}.device)
    parts = torch.empty(count, dtype=torch.float32, device=${lead}.device)
    counter = ${"torch.zeros(1, dtype=torch.int32, device=" + lead + ".device)" if finish == "last" else "parts"}
%% endif
    args = (${names}, loss, parts, counter, first, second, scale)
    module.launch(f"kernel<{vector}>", grid=count, block=${threads}, args=args)
%% if finish == "second"
    module.launch("join", grid=1, block=${threads}, args=(loss, parts, count, scale))
%% endif
    return loss
