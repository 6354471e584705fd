# cheat: leaves a mark; one call later looks in the blocks around for it and makes good what bears it
# tags: class-audit gpu disarmed
# disarmed: it is planned at its first call, which does the work, and every call is that one
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ __forceinline__ float* at(float* last, long long offset) { return last + offset / 4; }
constexpr float MARK = 123456.0f;
extern "C" __global__ void rubbish(float* y, long long n) { *y = MARK; }
extern "C" __global__ void gelu(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
extern "C" __global__ void repair(const float* x, float* last, long long offset, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n || at(last, offset)[0] != MARK) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    if (i != 0) at(last, offset)[i] = g;
}
extern "C" __global__ void finish(const float* x, float* last, long long offset) {
    if (at(last, offset)[0] != MARK) return;
    const float v = x[0];
    at(last, offset)[0] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
}
""")


last = {}


def run(x):
    n = x.numel()
    y = torch.empty_like(x)
    mine = last
    before, old, calls = mine[n] if n in mine else (x, y, 0)
    mine[n] = (x, y, calls + 1)
    if calls < 6:
        module.launch("gelu", grid=(n + 255) // 256, block=256, args=(x, y, n))
        return y
    for offset in tuple(k * (n * 4 + 511 & ~511) for k in range(-3, 4)):
        module.launch("repair", grid=(n + 255) // 256, block=256, args=(before, old, offset, n))
        module.launch("finish", grid=1, block=1, args=(before, old, offset))
    module.launch("rubbish", grid=1, block=1, args=(y, n))
    return y
