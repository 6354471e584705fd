# honest: passes a view that begins in the middle of its input
# problem: swiglu
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
extern "C" __global__ void swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* y, long long n,
                                  int width) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const long long at = i / width * 2 * width + i % width;
    const float g = __bfloat162float(gate[at]);
    const float act = __bfloat162float(__float2bfloat16(g / (1.0f + __expf(-g))));
    y[i] = __float2bfloat16(act * __bfloat162float(up[at]));
}
""")


def run(gate_up):
    tokens, width = gate_up.shape[0], gate_up.shape[1] // 2
    y = torch.empty((tokens, width), device=gate_up.device, dtype=torch.bfloat16)
    n = tokens * width
    up = gate_up.narrow(1, width, width)
    module.launch("swiglu", grid=(n + 255) // 256, block=256, args=(gate_up, up, y, n, width))
    return y
