# honest: template instantiations exported by name, chosen by shape
# problem: gelu_tanh
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r"""
template <int ITEMS>
__global__ void gelu(const float* x, float* y, long long n) {
    const long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * ITEMS;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        if (first + k < n) {
            const float v = x[first + k];
            y[first + k] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
        }
    }
}
""",
    names=["gelu<1>", "gelu<4>"],
)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    items = 4 if n > 100_000 else 1
    module.launch(f"gelu<{items}>", grid=(n + 256 * items - 1) // (256 * items), block=256, args=(x, y, n))
    return y
