import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r'''
<%% include "rowwise/scan/templates/long_cuda.cu" %%>
''',
    names=(${exported}),
)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    vector = ${vector} if n % ${vector} == 0 else 1
    span = ${threads * items} * vector
    count = (n + span - 1) // span
%% if method == "lookback"
    states = torch.zeros(count, dtype=torch.int64, device=x.device)
    ticket = torch.zeros(1, dtype=torch.int32, device=x.device)
    module.launch(f"kernel<{vector}>", grid=count, block=${threads}, args=(x, y, states, ticket, n))
%% else
    sums = torch.empty(count, dtype=torch.int32, device=x.device)
    module.launch(f"first<{vector}>", grid=count, block=${threads}, args=(x, y, sums, n))
    module.launch("second", grid=1, block=${threads}, args=(sums, count))
    module.launch(f"third<{vector}>", grid=count, block=${threads}, args=(x, y, sums, n))
%% endif
    return y
