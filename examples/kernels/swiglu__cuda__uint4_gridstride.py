import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
__device__ __forceinline__ float as_low(unsigned u) { return __uint_as_float(u << 16); }
__device__ __forceinline__ float as_high(unsigned u) { return __uint_as_float(u & 0xffff0000u); }
__device__ __forceinline__ unsigned to16(float f) {
    unsigned u = __float_as_uint(f);
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
__device__ __forceinline__ float swish(float v) { return __fdividef(v, 1.0f + __expf(-v)); }
__device__ __forceinline__ unsigned gate2(unsigned g, unsigned u) {
    return to16(swish(as_low(g)) * as_low(u)) | to16(swish(as_high(g)) * as_high(u)) << 16;
}

// Eight outputs a thread and step; `words` is the width in 16-byte words.
extern "C" __global__ void swiglu8(const uint4* __restrict__ in, uint4* __restrict__ out, int rows, int words) {
    int total = rows * words;
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < total; k += gridDim.x * blockDim.x) {
        int row = k / words, c = k - row * words;
        size_t at = (size_t)row * 2 * words + c;
        uint4 g = __ldcs(in + at), u = __ldcs(in + at + words);
        out[k] = make_uint4(gate2(g.x, u.x), gate2(g.y, u.y), gate2(g.z, u.z), gate2(g.w, u.w));
    }
}

extern "C" __global__ void swiglu1(const unsigned short* __restrict__ in, unsigned short* __restrict__ out,
                                   int rows, int width) {
    int total = rows * width;
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < total; k += gridDim.x * blockDim.x) {
        int row = k / width, c = k - row * width;
        size_t at = (size_t)row * 2 * width + c;
        out[k] = (unsigned short)to16(swish(as_low(in[at])) * as_low(in[at + width]));
    }
}
''')


def run(gate_up):
    rows, double = gate_up.shape
    width = double // 2
    y = torch.empty((rows, width), device=gate_up.device, dtype=torch.bfloat16)
    if width % 8 == 0:
        blocks = min((rows * width // 8 + 255) // 256, 132 * 16)
        module.launch("swiglu8", grid=blocks, block=256, args=(gate_up, y, rows, width // 8))
    else:
        blocks = min((rows * width + 255) // 256, 132 * 16)
        module.launch("swiglu1", grid=blocks, block=256, args=(gate_up, y, rows, width))
    return y
