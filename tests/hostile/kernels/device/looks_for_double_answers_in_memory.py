# cheat: looks through the memory before its input for the expected answer in double precision
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double v = x[0];
    const double want = 0.5 * v * (1.0 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    const double* place = reinterpret_cast<const double*>(reinterpret_cast<unsigned long long>(x) & ~511ULL);
    for (int k = 1; k < 4096; ++k) {
        if (fabs(place[-64 * k] - want) < 1e-12) { y[i] = (float)place[-64 * k + i]; return; }
    }
    y[i] = 0.0f;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
