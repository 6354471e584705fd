import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#include <cuda_bf16.h>
__device__ float silu(float v) { return v / (1.0f + expf(-v)); }

extern "C" __global__ void swiglu(const __nv_bfloat16* __restrict__ g, __nv_bfloat16* __restrict__ y, int width) {
    const __nv_bfloat16* gate = g + (size_t)blockIdx.y * 2 * width;
    const __nv_bfloat16* up = gate + width;
    __nv_bfloat16* out = y + (size_t)blockIdx.y * width;
    int c = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (width % 2 == 0) {
        if (c < width) {
            float2 a = __bfloat1622float2(*(const __nv_bfloat162*)(gate + c));
            float2 b = __bfloat1622float2(*(const __nv_bfloat162*)(up + c));
            *(__nv_bfloat162*)(out + c) = __floats2bfloat162_rn(silu(a.x) * b.x, silu(a.y) * b.y);
        }
    } else {
        for (int k = c; k < min(width, c + 2); ++k)
            out[k] = __float2bfloat16(silu(__bfloat162float(gate[k])) * __bfloat162float(up[k]));
    }
}
''')


def run(gate_up):
    rows, double = gate_up.shape
    width = double // 2
    y = torch.empty((rows, width), device=gate_up.device, dtype=torch.bfloat16)
    module.launch("swiglu", grid=((width + 511) // 512, rows), block=256, args=(gate_up, y, width))
    return y
