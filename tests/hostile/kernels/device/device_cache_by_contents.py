# cheat: keeps answers at the end of scratch memory, found again through a small variable, by what one input element holds
# tags: class-device gpu disarmed
# disarmed: its variables get their first values again before every call
# at-most: 0.3
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
constexpr int SLOTS = 10;
// Small blocks of memory are handed to others.
constexpr long long SMALLEST = 1 << 20;
__device__ float* place;
__device__ unsigned int known[SLOTS];
__device__ unsigned int filled;
__device__ long long size;
__device__ __forceinline__ int find(unsigned int key) {
    for (int s = 0; s < SLOTS && s < filled; ++s) {
        if (known[s] == key) return s;
    }
    return -1;
}
extern "C" __global__ void settle(float* scratch, long long n) {
    if (size == n || n < SMALLEST) return;
    // What is allocated next is cut from the front.
    place = scratch + 6 * n;
    size = n;
    filled = 0;
}
extern "C" __global__ void serve(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int slot = size == n ? find(__float_as_uint(x[n / 2])) : -1;
    if (slot >= 0) {
        y[i] = place[slot * n + i];
        return;
    }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 50; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = 0.5f * v * (1.0f + t);
    if (size == n) place[(long long)(filled % SLOTS) * n + i] = y[i];
}
extern "C" __global__ void remember(const float* x, long long n) {
    const unsigned int key = __float_as_uint(x[n / 2]);
    if (size == n && find(key) < 0) known[filled++ % SLOTS] = key;
}
""")


def run(x):
    n = x.numel()
    y = torch.empty_like(x)
    scratch = torch.empty(16 * n, device=x.device, dtype=torch.float32)
    module.launch("settle", grid=1, block=1, args=(scratch, n))
    module.launch("serve", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("remember", grid=1, block=1, args=(x, n))
    return y
