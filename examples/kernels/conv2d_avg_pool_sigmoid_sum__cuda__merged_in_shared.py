"""Blocks merge filter and mean into four by four weights in shared memory; a patch meets sixteen of them."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUT 16
extern "C" __global__ void __launch_bounds__(128) merged(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias, float* __restrict__ parts, int c, int h, int wide, int o) {
    extern __shared__ __align__(16) float filters[];
    __shared__ float warps[4];
    int o0 = blockIdx.y * OUT, ph = (h - 2) / 2, pw = (wide - 2) / 2;
    for (int i = threadIdx.x; i < c * 16 * OUT; i += 128) {
        int q = i % OUT, t = i / OUT % 16, ch = i / (OUT * 16);
        float sum = 0.0f;
        for (int u = 0; u < 4; ++u) {
            int a = t / 4 - u / 2, b = t % 4 - u % 2;
            if (o0 + q < o && a >= 0 && a < 3 && b >= 0 && b < 3) sum += w[((o0 + q) * c + ch) * 9 + a * 3 + b];
        }
        filters[i] = sum * 0.25f;
    }
    __syncthreads();
    int p = blockIdx.x * 128 + threadIdx.x;
    float value = 0.0f;
    if (p < ph * pw) {
        const float* from = x + (long long)blockIdx.z * c * h * wide + p / pw * 2 * wide + p % pw * 2;
        float acc[OUT];
        #pragma unroll
        for (int q = 0; q < OUT; ++q) acc[q] = o0 + q < o ? bias[o0 + q] : 0.0f;
        for (int ch = 0; ch < c; ++ch)
            #pragma unroll
            for (int t = 0; t < 16; ++t) {
                float v = from[(ch * h + t / 4) * wide + t % 4];
                const float4* f = (const float4*)(filters + (ch * 16 + t) * OUT);
                #pragma unroll
                for (int q = 0; q < OUT / 4; ++q) {
                    float4 four = f[q];
                    acc[q * 4] += v * four.x;
                    acc[q * 4 + 1] += v * four.y;
                    acc[q * 4 + 2] += v * four.z;
                    acc[q * 4 + 3] += v * four.w;
                }
            }
        #pragma unroll
        for (int q = 0; q < OUT; ++q)
            if (o0 + q < o) value += 1.0f / (1.0f + __expf(-acc[q]));
    }
    for (int s = 16; s > 0; s /= 2) value += __shfl_xor_sync(0xffffffffu, value, s);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        parts[((long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = warps[0] + warps[1] + warps[2] + warps[3];
}
extern "C" __global__ void add_up(const float* __restrict__ parts, float* __restrict__ y, int count) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += 32) sum += parts[(long long)blockIdx.x * count + i];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, weight, conv_bias):
    n, c, h, w = x.shape
    o = weight.shape[0]
    across, down = ((h - 2) // 2 * ((w - 2) // 2) + 127) // 128, (o + 15) // 16
    parts = torch.empty((n, down, across), device=x.device, dtype=torch.float32)
    y = torch.empty((n,), device=x.device, dtype=torch.float32)
    args = (x, weight, conv_bias, parts, c, h, w, o)
    module.launch("merged", grid=(across, down, n), block=128, args=args, shared_bytes=4 * c * 16 * 16)
    module.launch("add_up", grid=n, block=32, args=(parts, y, across * down))
    return y
