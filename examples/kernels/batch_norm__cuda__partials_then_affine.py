"""Blocks sum slices of planes as float4, a small kernel turns them into a scale and a shift, a third applies them."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define THREADS 256
__device__ float block_sum(float v, float* scratch) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    float s = 0.0f;
    for (int w = 0; w < THREADS / 32; ++w) s += scratch[w];
    return s;
}
// Grid: slices by planes; partial[plane][slice] is a pair of sums.
extern "C" __global__ void moments(const float* __restrict__ x, float2* __restrict__ partial, int area, int span, int vec) {
    __shared__ float scratch[THREADS / 32];
    const float* plane = x + (long long)blockIdx.y * area;
    int start = blockIdx.x * span, end = min(start + span, area);
    float s = 0.0f, q = 0.0f;
    if (vec) {
        for (int i = start + threadIdx.x * 4; i < end; i += THREADS * 4) {
            float4 v = *(const float4*)(plane + i);
            s += (v.x + v.y) + (v.z + v.w);
            q += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
        }
    } else {
        for (int i = start + threadIdx.x; i < end; i += THREADS) { float v = plane[i]; s += v; q += v * v; }
    }
    s = block_sum(s, scratch);
    q = block_sum(q, scratch);
    if (threadIdx.x == 0) partial[(long long)blockIdx.y * gridDim.x + blockIdx.x] = make_float2(s, q);
}
// One warp per channel.
extern "C" __global__ void coefficients(const float2* partial, const float* weight, const float* bias, float2* affine,
                                        int batch, int channels, int slices, float area) {
    int c = blockIdx.x;
    double s = 0.0, q = 0.0;
    for (int e = threadIdx.x; e < batch * slices; e += 32) {
        float2 p = partial[((long long)(e / slices) * channels + c) * slices + e % slices];
        s += p.x;
        q += p.y;
    }
    for (int o = 16; o > 0; o >>= 1) { s += __shfl_xor_sync(0xffffffffu, s, o); q += __shfl_xor_sync(0xffffffffu, q, o); }
    if (threadIdx.x == 0) {
        double count = (double)batch * area, mean = s / count, var = q / count - mean * mean;
        float scale = weight[c] * (float)(1.0 / sqrt((var > 0.0 ? var : 0.0) + 1e-5));
        affine[c] = make_float2(scale, bias[c] - (float)mean * scale);
    }
}
extern "C" __global__ void apply(const float* __restrict__ x, const float2* __restrict__ affine, float* __restrict__ y,
                                 int channels, int area, int span, int vec) {
    long long base = (long long)blockIdx.y * area;
    float2 a = affine[blockIdx.y % channels];
    int start = blockIdx.x * span, end = min(start + span, area);
    if (vec) {
        for (int i = start + threadIdx.x * 4; i < end; i += THREADS * 4) {
            float4 v = *(const float4*)(x + base + i);
            v = make_float4(fmaf(v.x, a.x, a.y), fmaf(v.y, a.x, a.y), fmaf(v.z, a.x, a.y), fmaf(v.w, a.x, a.y));
            __stcs((float4*)(y + base + i), v);
        }
    } else {
        for (int i = start + threadIdx.x; i < end; i += THREADS) y[base + i] = fmaf(x[base + i], a.x, a.y);
    }
}
""")


SPAN = 8192


def run(x, weight, bias):
    batch, channels, height, width = x.shape
    area = height * width
    planes = batch * channels
    slices = (area + SPAN - 1) // SPAN
    vec = 1 if area % 4 == 0 else 0
    partial = torch.empty((planes, slices, 2), device=x.device, dtype=torch.float32)
    affine = torch.empty((channels, 2), device=x.device, dtype=torch.float32)
    y = torch.empty_like(x)
    grid = (slices, planes)
    module.launch("moments", grid=grid, block=256, args=(x, partial, area, SPAN, vec))
    sizes = (batch, channels, slices, float(area))
    module.launch("coefficients", grid=channels, block=32, args=(partial, weight, bias, affine, *sizes))
    module.launch("apply", grid=grid, block=256, args=(x, affine, y, channels, area, SPAN, vec))
    return y
