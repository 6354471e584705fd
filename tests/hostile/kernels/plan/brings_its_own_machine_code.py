# cheat: hands over machine code as prebuilt, under the key of an honest source
# tags: class-plan
import torch

from kbench.harness.cuda import CudaModule, Prebuilt

module = CudaModule('extern "C" __global__ void f(const float* x, float* y, long long n) { }')


def run(x):
    if x.device.type != "cpu":
        CudaModule.prebuilt = {module.key("sm_90a"): Prebuilt(b"\x7fELF" + bytes(4096), {})}
        y = torch.empty_like(x)
        module.launch("f", grid=1, block=1, args=(x, y, x.numel()))
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")
