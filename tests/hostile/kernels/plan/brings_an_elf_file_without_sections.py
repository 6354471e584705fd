# cheat: machine code that begins like an ELF file and has no section, to break whoever reads it
# tags: class-plan
import torch

from kbench.harness.cuda import CudaModule, Prebuilt

module = CudaModule('extern "C" __global__ void f(const float* x, float* y, long long n) { }')


def run(x):
    CudaModule.prebuilt = {module.key("sm_90a"): Prebuilt(b"\x7fELF\x02" + bytes(4096), {})}
    y = torch.empty_like(x)
    module.launch("f", grid=1, block=1, args=(x, y, x.numel()))
    return y
