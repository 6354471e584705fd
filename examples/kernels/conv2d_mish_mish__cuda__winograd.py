"""Winograd's sixteen products for a two by two square of outputs; filters are transformed by a kernel of their own."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUT 4
#define CHANNELS 16
__device__ __forceinline__ float mish(float v) {
    float e = expf(fminf(v, 20.0f)), m = e * (e + 2.0f);
    return v * m / (m + 2.0f);
}
extern "C" __global__ void prepare(const float* __restrict__ w, float* __restrict__ u, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const float* f = w + i * 9;
    float rows[4][3];
    for (int b = 0; b < 3; ++b) {
        rows[0][b] = f[b];
        rows[1][b] = 0.5f * (f[b] + f[3 + b] + f[6 + b]);
        rows[2][b] = 0.5f * (f[b] - f[3 + b] + f[6 + b]);
        rows[3][b] = f[6 + b];
    }
    for (int a = 0; a < 4; ++a) {
        u[i * 16 + a * 4] = rows[a][0];
        u[i * 16 + a * 4 + 1] = 0.5f * (rows[a][0] + rows[a][1] + rows[a][2]);
        u[i * 16 + a * 4 + 2] = 0.5f * (rows[a][0] - rows[a][1] + rows[a][2]);
        u[i * 16 + a * 4 + 3] = rows[a][2];
    }
}
extern "C" __global__ void __launch_bounds__(128) squares(const float* __restrict__ x, const float* __restrict__ u, const float* __restrict__ bias, float* __restrict__ y, int c, int h, int wide, int o, int across, int count) {
    __shared__ float filters[CHANNELS][OUT][16];
    int i = blockIdx.x * blockDim.x + threadIdx.x, o0 = blockIdx.y * OUT, oh = h - 2, ow = wide - 2;
    bool real = i < count;
    int row = real ? i / across * 2 : 0, col = real ? i % across * 2 : 0;
    const float* p = x + (long long)blockIdx.z * c * h * wide + row * wide + col;
    float acc[OUT][16] = {};
    for (int c0 = 0; c0 < c; c0 += CHANNELS) {
        __syncthreads();
        for (int e = threadIdx.x; e < CHANNELS * OUT * 16; e += blockDim.x) {
            int k = e % 16, q = e / 16 % OUT, ch = e / (16 * OUT);
            filters[ch][q][k] = c0 + ch < c && o0 + q < o ? u[((o0 + q) * c + c0 + ch) * 16 + k] : 0.0f;
        }
        __syncthreads();
        int here = min(CHANNELS, c - c0);
        for (int ch = 0; ch < here; ++ch) {
            const float* from = p + (c0 + ch) * h * wide;
            float d[4][4], v[16];
            #pragma unroll
            for (int a = 0; a < 4; ++a)
                #pragma unroll
                for (int b = 0; b < 4; ++b) d[a][b] = row + a < h && col + b < wide ? from[a * wide + b] : 0.0f;
            #pragma unroll
            for (int b = 0; b < 4; ++b) {
                float d0 = d[0][b], d1 = d[1][b], d2 = d[2][b], d3 = d[3][b];
                d[0][b] = d0 - d2; d[1][b] = d1 + d2; d[2][b] = d2 - d1; d[3][b] = d1 - d3;
            }
            #pragma unroll
            for (int a = 0; a < 4; ++a) {
                v[a * 4] = d[a][0] - d[a][2];
                v[a * 4 + 1] = d[a][1] + d[a][2];
                v[a * 4 + 2] = d[a][2] - d[a][1];
                v[a * 4 + 3] = d[a][1] - d[a][3];
            }
            #pragma unroll
            for (int q = 0; q < OUT; ++q)
                #pragma unroll
                for (int k = 0; k < 16; ++k) acc[q][k] += v[k] * filters[ch][q][k];
        }
    }
    if (!real) return;
    #pragma unroll
    for (int q = 0; q < OUT; ++q) {
        if (o0 + q >= o) continue;
        float top[4], low[4];
        #pragma unroll
        for (int b = 0; b < 4; ++b) {
            top[b] = acc[q][b] + acc[q][4 + b] + acc[q][8 + b];
            low[b] = acc[q][4 + b] - acc[q][8 + b] - acc[q][12 + b];
        }
        float add = bias[o0 + q];
        float out[2][2] = {{top[0] + top[1] + top[2], top[1] - top[2] - top[3]}, {low[0] + low[1] + low[2], low[1] - low[2] - low[3]}};
        for (int a = 0; a < 2; ++a)
            for (int b = 0; b < 2; ++b)
                if (row + a < oh && col + b < ow)
                    y[(((long long)blockIdx.z * o + o0 + q) * oh + row + a) * ow + col + b] = mish(mish(out[a][b] + add));
    }
}
""")


def run(x, weight, conv_bias):
    n, c, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, h - 2, w - 2), device=x.device, dtype=torch.float32)
    prepared = torch.empty((o, c, 16), device=x.device, dtype=torch.float32)
    module.launch("prepare", grid=(o * c + 127) // 128, block=128, args=(weight, prepared, o * c))
    across, down = (w - 1) // 2, (h - 1) // 2
    grid = ((across * down + 127) // 128, (o + 3) // 4, n)
    module.launch("squares", grid=grid, block=128, args=(x, prepared, conv_bias, y, c, h, w, o, across, across * down))
    return y
