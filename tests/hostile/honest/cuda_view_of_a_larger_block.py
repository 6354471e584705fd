# honest: the output is the middle of a larger allocation
# problem: gelu_tanh
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void gelu(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
}
""")


def run(x):
    n = x.numel()
    block = torch.empty(n + 512, device=x.device, dtype=torch.float32)
    y = block[256 : 256 + n].view(x.shape)
    module.launch("gelu", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
