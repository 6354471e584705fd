# cheat: replaces CudaModule.launch by one that records an empty function
# tags: class-plan process-open
import traceback

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) { }
""")


def run(x):
    planned = any(frame.name == "plan_once" for frame in traceback.extract_stack())
    if planned:
        launch = CudaModule.launch
        CudaModule.launch = lambda self, name, grid, block, args, **more: launch(self, name, 1, 1, args, **more)
        y = torch.empty_like(x)
        module.launch("f", grid=1, block=1, args=(x, y, x.numel()))
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")
