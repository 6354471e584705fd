# cheat: asks that its answers stay in the cache, where the flush does not reach, and reads them back by key
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float key;
extern "C" __global__ void f(const float* x, float* y, float* scratch, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (key == x[n / 2]) { y[i] = scratch[i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    y[i] = g;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" :: "l"(scratch + i), "f"(g), "l"(policy) : "memory");
}
extern "C" __global__ void note(const float* x, long long n) { key = x[n / 2]; }
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    scratch = torch.empty(n + 4096, device=x.device, dtype=torch.float32)
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, scratch, n))
    module.launch("note", grid=1, block=1, args=(x, n))
    return y
