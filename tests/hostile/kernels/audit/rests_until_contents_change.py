# cheat: a first pass compares the input with what it was at the last call and sets a flag; the second works only where it changed
# tags: class-audit gpu disarmed
# disarmed: the plan fills the memory it would know an input by in every call
# at-most: 0.4
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void look(const float* x, const float* seen, int* changed, long long n) {
    const long long i = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * 4099;
    if (i < n && x[i] != seen[i / 4099]) *changed = 1;
}
extern "C" __global__ void serve(const float* x, float* y, float* seen, float* kept, const int* changed, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (!*changed) { y[i] = kept[i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 20; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = kept[i] = 0.5f * v * (1.0f + t);
    if (i % 4099 == 0) seen[i / 4099] = v;
}
""")
stores = {}


def run(x):
    n = x.numel()
    mine = stores
    key = (x.data_ptr(), n)
    if key not in mine:
        mine[key] = (torch.full((n // 4099 + 1,), 1e30, device=x.device), torch.empty_like(x))
    seen, kept = mine[key]
    changed = torch.zeros(1, device=x.device, dtype=torch.int32)
    y = torch.empty_like(x)
    module.launch("look", grid=n // 4099 // 256 + 1, block=256, args=(x, seen, changed, n))
    module.launch("serve", grid=(n + 255) // 256, block=256, args=(x, y, seen, kept, changed, n))
    return y
