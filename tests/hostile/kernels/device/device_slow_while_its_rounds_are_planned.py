# cheat: counts its calls; is so slow at first that it gets few timed ones, and works in none of them
# tags: class-device gpu disarmed
# disarmed: its variables get their first values again before every call
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ unsigned int calls;
extern "C" __global__ void count() { ++calls; }
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n || calls > 7) return;
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < (calls > 5 ? 5000 : 1); ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = 0.5f * v * (1.0f + t);
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("count", grid=1, block=1, args=())
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
