# cheat: the output is the front of a larger block, whose rest keeps the last answer
# tags: class-audit gpu disarmed
# disarmed: scratch is overwritten before every call: no key is ever found in it
# at-most: 0.3
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, float* scratch, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (scratch[n] == x[n / 2] && scratch[n + 1] == x[n / 3]) { y[i] = scratch[i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    y[i] = scratch[i] = g;
}
extern "C" __global__ void note(const float* x, float* scratch, long long n) {
    scratch[n] = x[n / 2];
    scratch[n + 1] = x[n / 3];
}
""")


def run(x):
    n = x.numel()
    block = torch.empty(4 * n + 1024, device=x.device, dtype=torch.float32)
    y = block[:n].view(x.shape)
    scratch = block[2 * n:]
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, scratch, n))
    module.launch("note", grid=1, block=1, args=(x, scratch, n))
    return y
