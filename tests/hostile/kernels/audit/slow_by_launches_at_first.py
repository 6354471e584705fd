# cheat: hundreds of launches in the first calls make it look slow, so that few calls are timed; those are not worked for
# tags: class-audit gpu disarmed
# disarmed: it is planned at its first call: the launches that make it slow are part of every call and of its time
# at-most: 0.05
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


counts = {"calls": 0}


def run(x):
    mine = counts
    mine["calls"] = mine["calls"] + 1
    y = torch.empty_like(x)
    n = x.numel()
    for _ in range(400 if mine["calls"] < 9 else 0):
        module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
