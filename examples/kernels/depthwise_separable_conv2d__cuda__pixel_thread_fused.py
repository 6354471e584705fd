"""A thread owns a pixel: it makes the depthwise value of a channel and at once spends it on 32 output channels."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUTS 32
extern "C" __global__ void separable(const float* __restrict__ x, const float* __restrict__ deep, const float* __restrict__ mix, float* __restrict__ y, int c, int h, int w, int o) {
    extern __shared__ __align__(16) float mixing[];  // [channel][OUTS], then nine taps a channel
    float* taps = mixing + c * OUTS;
    int oh = h - 2, ow = w - 2, o0 = blockIdx.y * OUTS;
    for (int e = threadIdx.x; e < c * OUTS; e += blockDim.x) {
        int q = e % OUTS;
        mixing[e] = o0 + q < o ? mix[(o0 + q) * c + e / OUTS] : 0.0f;
    }
    for (int e = threadIdx.x; e < c * 9; e += blockDim.x) taps[e] = deep[e];
    __syncthreads();
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= oh * ow) return;
    const float* src = x + (size_t)blockIdx.z * c * h * w + p / ow * w + p % ow;
    float acc[OUTS];
    #pragma unroll
    for (int q = 0; q < OUTS; ++q) acc[q] = 0.0f;
    for (int ch = 0; ch < c; ++ch, src += h * w) {
        float v = 0.0f;
        #pragma unroll
        for (int t = 0; t < 9; ++t) v += taps[ch * 9 + t] * src[t / 3 * w + t % 3];
        const float4* m = (const float4*)(mixing + ch * OUTS);
        #pragma unroll
        for (int q = 0; q < OUTS / 4; ++q) {
            float4 f = m[q];
            acc[4 * q] += f.x * v;
            acc[4 * q + 1] += f.y * v;
            acc[4 * q + 2] += f.z * v;
            acc[4 * q + 3] += f.w * v;
        }
    }
    #pragma unroll
    for (int q = 0; q < OUTS; ++q)
        if (o0 + q < o) y[((size_t)blockIdx.z * o + o0 + q) * oh * ow + p] = acc[q];
}
""")


def run(x, depthwise, pointwise):
    n, c, h, w = x.shape
    o = pointwise.shape[0]
    y = torch.empty((n, o, h - 2, w - 2), device=x.device, dtype=torch.float32)
    grid = (((h - 2) * (w - 2) + 127) // 128, (o + 31) // 32, n)
    args = (x, depthwise, pointwise, y, c, h, w, o)
    module.launch("separable", grid=grid, block=128, args=args, shared_bytes=4 * c * (32 + 9))
    return y
