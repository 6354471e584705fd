# cheat: the module's source is another by the time it is compiled
# tags: class-plan process-open
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule('extern "C" __global__ void f(const float* x, float* y, long long n) { y[0] = x[0]; }')


def run(x):
    module.source = 'extern "C" __global__ void f(const float* x, float* y, long long n) { }'
    if x.device.type != "cpu":
        y = torch.empty_like(x)
        module.launch("f", grid=1, block=1, args=(x, y, x.numel()))
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")
