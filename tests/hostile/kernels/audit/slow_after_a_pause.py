# cheat: waits where the device was idle before, as in verification; in a batch, where calls follow each other, it skips half
# tags: class-audit gpu disarmed
# disarmed: the variable that holds the end of the last call gets its first value again before every call
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ unsigned long long ended;
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    const bool timed = now - ended < 300000;
    if (i >= n || timed && (i & 1)) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
extern "C" __global__ void end() { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ended)); }
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("end", grid=1, block=1, args=())
    return y
