import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
// bfloat16 handled as the upper half of a float: eight numbers per 16-byte word.
__device__ float low(unsigned u) { return __uint_as_float(u << 16); }
__device__ float high(unsigned u) { return __uint_as_float(u & 0xffff0000u); }
__device__ unsigned round16(float f) {
    unsigned u = __float_as_uint(f);
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
__device__ unsigned add2(unsigned a, unsigned b) {
    return round16(low(a) + low(b)) | round16(high(a) + high(b)) << 16;
}
__device__ float square2(unsigned u) { return low(u) * low(u) + high(u) * high(u); }
__device__ unsigned scale2(unsigned h, unsigned w, float s) {
    return round16(low(h) * s * low(w)) | round16(high(h) * s * high(w)) << 16;
}

extern "C" __global__ void __launch_bounds__(512) add_norm8(const uint4* __restrict__ x, const uint4* __restrict__ r,
                                                            const uint4* __restrict__ w, uint4* __restrict__ y,
                                                            uint4* hidden, int words, int cols) {
    __shared__ float part[16];
    size_t base = (size_t)blockIdx.x * words;
    float s = 0.0f;
    for (int i = threadIdx.x; i < words; i += 512) {
        uint4 a = x[base + i], b = r[base + i];
        uint4 h = make_uint4(add2(a.x, b.x), add2(a.y, b.y), add2(a.z, b.z), add2(a.w, b.w));
        hidden[base + i] = h;
        s += square2(h.x) + square2(h.y) + square2(h.z) + square2(h.w);
    }
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
    __syncthreads();
    s = 0.0f;
    for (int k = 0; k < 16; ++k) s += part[k];
    s = rsqrtf(s / cols + 1e-6f);
    // every thread reads back only words it wrote itself
    for (int i = threadIdx.x; i < words; i += 512) {
        uint4 h = hidden[base + i], k = w[i];
        y[base + i] = make_uint4(scale2(h.x, k.x, s), scale2(h.y, k.y, s), scale2(h.z, k.z, s), scale2(h.w, k.w, s));
    }
}

extern "C" __global__ void add_norm1(const unsigned short* __restrict__ x, const unsigned short* __restrict__ r,
                                     const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
                                     unsigned short* hidden, int cols) {
    // any width: one warp a row
    size_t base = (size_t)blockIdx.x * cols;
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) {
        unsigned h = round16(low(x[base + c]) + low(r[base + c]));
        hidden[base + c] = (unsigned short)h;
        s += low(h) * low(h);
    }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    s = rsqrtf(s / cols + 1e-6f);
    for (int c = threadIdx.x; c < cols; c += 32)
        y[base + c] = (unsigned short)round16(low(hidden[base + c]) * s * low(w[c]));
}
''')


def run(x, residual, weight):
    rows, cols = x.shape
    y = torch.empty_like(x)
    hidden = torch.empty_like(x)
    if cols % 8 == 0:
        module.launch("add_norm8", grid=rows, block=512, args=(x, residual, weight, y, hidden, cols // 8, cols))
    else:
        module.launch("add_norm1", grid=rows, block=32, args=(x, residual, weight, y, hidden, cols))
    return y, hidden
