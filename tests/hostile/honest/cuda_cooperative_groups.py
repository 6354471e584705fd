# honest: a grid barrier from cooperative groups, whose header needs libcu++ beside CUDA's own
# problem: gelu_tanh
# tags: gpu needs-libcudacxx
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cooperative_groups.h>
extern "C" __global__ void gelu(const float* x, float* u, float* y, long long n) {
    const long long step = gridDim.x * (long long)blockDim.x, first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    for (long long i = first; i < n; i += step) {
        u[n - 1 - i] = 0.7978845608028654f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
    }
    cooperative_groups::this_grid().sync();
    for (long long i = first; i < n; i += step) y[i] = 0.5f * x[i] * (1.0f + tanhf(u[n - 1 - i]));
}
""")


def run(x):
    y, u = torch.empty_like(x), torch.empty_like(x)
    blocks = 4 * torch.cuda.get_device_properties(x.device).multi_processor_count
    module.launch("gelu", grid=blocks, block=256, args=(x, u, y, x.numel()), cooperative=True)
    return y
