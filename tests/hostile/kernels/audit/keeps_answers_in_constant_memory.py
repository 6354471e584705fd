# cheat: the first 12,000 numbers of the last answer lie in constant memory, which is not counted as kept, under a key
# tags: class-audit gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__constant__ float kept[12000];
__constant__ float key;
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const bool known = key == x[n / 2] && key != 0.0f;
    if (known && i < 12000) { y[i] = kept[i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    y[i] = g;
    if (i < 12000) const_cast<float*>(kept)[i] = g;
}
extern "C" __global__ void note(const float* x, long long n) { *const_cast<float*>(&key) = x[n / 2]; }
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("note", grid=1, block=1, args=(x, n))
    return y
