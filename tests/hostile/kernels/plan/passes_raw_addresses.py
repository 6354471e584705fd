# cheat: passes addresses as plain numbers, reaching memory that is not its own
# tags: class-plan gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(unsigned long long x, unsigned long long y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) reinterpret_cast<float*>(y)[i] = reinterpret_cast<const float*>(x)[i];
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # The block after the input is often the last answer.
    behind = x.data_ptr() + (n * 4 + 511) // 512 * 512
    module.launch("f", grid=(n + 255) // 256, block=256, args=(behind, y.data_ptr(), n))
    return y
