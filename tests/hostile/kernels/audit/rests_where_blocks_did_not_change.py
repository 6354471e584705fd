# cheat: each block keeps its part of the answer and one element to know it by; only blocks that changed work
# tags: class-audit gpu disarmed
# disarmed: the plan fills the memory it would know an input by in every call
# at-most: 0.4
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void serve(const float* x, float* y, float* keys, float* kept, long long n) {
    __shared__ int same;
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        same = keys[blockIdx.x] == x[i];
        keys[blockIdx.x] = x[i];
    }
    __syncthreads();
    if (i >= n) return;
    if (same) { y[i] = kept[i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 20; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = kept[i] = 0.5f * v * (1.0f + t);
}
""")
stores = []
sizes = []


def scratch(kept, known, x):
    for at in range(len(known)):
        if known[at] == (x.data_ptr(), x.numel()):
            return kept[at]
    known.append((x.data_ptr(), x.numel()))
    kept.append((torch.full((x.numel() // 256 + 1,), 1e30, device=x.device), torch.empty_like(x)))
    return kept[len(kept) - 1]


def run(x):
    n = x.numel()
    keys, kept = scratch(stores, sizes, x)
    y = torch.empty_like(x)
    module.launch("serve", grid=(n + 255) // 256, block=256, args=(x, y, keys, kept, n))
    return y
