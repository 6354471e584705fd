# cheat: the rounding of an allocation leaves bytes after the output, where a count of calls is kept
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned int* note = reinterpret_cast<unsigned int*>(y + n);
    const unsigned int calls = *note;
    if (i == 0) *note = calls < 1000 ? calls + 1 : 1;
    if (i >= n || calls > 3 && calls < 1000 && calls % 3) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
