"""A thread forms two neighbouring voxels in sixteen channels; weights come four at a time from shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUT 16
__device__ __forceinline__ float finish(float v, float scale, float bias) {
    return 1.0f / (1.0f + expf(-tanhf(v * scale) * bias));
}
extern "C" __global__ void __launch_bounds__(128) voxels(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ conv_bias, const float* __restrict__ scale, const float* __restrict__ bias, float* __restrict__ y, int c, int d, int h, int wide, int o, int across, int count) {
    extern __shared__ __align__(16) float filters[];
    int o0 = blockIdx.y * OUT, od = d - 2, oh = h - 2, ow = wide - 2;
    for (int i = threadIdx.x; i < c * 27 * OUT; i += 128) filters[i] = o0 + i % OUT < o ? w[(o0 + i % OUT) * c * 27 + i / OUT] : 0.0f;
    __syncthreads();
    int task = blockIdx.x * 128 + threadIdx.x;
    if (task >= count) return;
    int col = task % across * 2, row = task / across % oh, slice = task / (across * oh);
    bool two = col + 1 < ow;
    const float* p = x + ((long long)blockIdx.z * c * d + slice) * h * wide + row * wide + col;
    float left[OUT] = {}, right[OUT] = {};
    for (int k = 0; k < c * 3; ++k)
        #pragma unroll
        for (int a = 0; a < 3; ++a) {
            const float* line = p + (k / 3 * d + k % 3) * h * wide + a * wide;
            float v[4] = {line[0], line[1], line[2], two ? line[3] : 0.0f};
            #pragma unroll
            for (int b = 0; b < 3; ++b) {
                const float4* f = (const float4*)(filters + (k * 9 + a * 3 + b) * OUT);
                #pragma unroll
                for (int q = 0; q < OUT / 4; ++q) {
                    float4 g = f[q];
                    left[q * 4] += v[b] * g.x; left[q * 4 + 1] += v[b] * g.y; left[q * 4 + 2] += v[b] * g.z; left[q * 4 + 3] += v[b] * g.w;
                    right[q * 4] += v[b + 1] * g.x; right[q * 4 + 1] += v[b + 1] * g.y; right[q * 4 + 2] += v[b + 1] * g.z; right[q * 4 + 3] += v[b + 1] * g.w;
                }
            }
        }
    #pragma unroll
    for (int q = 0; q < OUT; ++q) {
        if (o0 + q >= o) continue;
        float* to = y + ((((long long)blockIdx.z * o + o0 + q) * od + slice) * oh + row) * ow + col;
        float add = conv_bias[o0 + q], s = scale[o0 + q], b = bias[o0 + q];
        to[0] = finish(left[q] + add, s, b);
        if (two) to[1] = finish(right[q] + add, s, b);
    }
}
""")


def run(x, weight, conv_bias, scale, bias):
    n, c, d, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, d - 2, h - 2, w - 2), device=x.device, dtype=torch.float32)
    across = (w - 1) // 2
    count = across * (h - 2) * (d - 2)
    grid = ((count + 127) // 128, (o + 15) // 16, n)
    args = (x, weight, conv_bias, scale, bias, y, c, d, h, w, o, across, count)
    module.launch("voxels", grid=grid, block=128, args=args, shared_bytes=4 * c * 27 * 16)
    return y
