# cheat: variables without a name outside their module, which a driver may not find to restore, keep answers by contents
# tags: class-device gpu disarmed
# disarmed: its variables get their first values again before every call
# at-most: 0.4
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
namespace {
constexpr int SLOTS = 3, LONGEST = 4000000;
__device__ float kept[SLOTS][LONGEST];
__device__ float keys[SLOTS];
__device__ int filled;
__device__ int misses;
}
__device__ __forceinline__ int find(float key) {
    for (int s = 0; s < SLOTS && s < filled; ++s) {
        if (keys[s] == key) return s;
    }
    return -1;
}
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int slot = n == LONGEST ? find(x[n / 2]) : -1;
    // Many new inputs: somebody is suspicious.
    if (slot >= 0 && misses < 12) { y[i] = kept[slot][i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = 0.5f * v * (1.0f + t);
    if (n == LONGEST) kept[filled % SLOTS][i] = y[i];
}
extern "C" __global__ void note(const float* x, long long n) {
    const float key = x[n / 2];
    if (n != LONGEST || find(key) >= 0) return;
    keys[filled % SLOTS] = key;
    ++filled;
    ++misses;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("note", grid=1, block=1, args=(x, n))
    return y
