"""A warp makes eight output channels for 128 positions: positions are lanes, so weights reach all lanes as broadcasts."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define K 3
#define CH 16
#define OUTS 64
#define POS 128
extern "C" __global__ void __launch_bounds__(256) conv_tile(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int l, int o, int ol) {
    __shared__ float xs[CH][POS + K - 1];
    __shared__ __align__(16) float ws[CH * K][OUTS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int p0 = blockIdx.x * POS, o0 = blockIdx.y * OUTS;
    const float* src = x + (size_t)blockIdx.z * c * l;
    float acc[8][4];
    #pragma unroll
    for (int q = 0; q < 8; ++q)
        #pragma unroll
        for (int j = 0; j < 4; ++j) acc[q][j] = 0.0f;
    for (int c0 = 0; c0 < c; c0 += CH) {
        for (int e = threadIdx.x; e < CH * (POS + K - 1); e += 256) {
            int ch = e / (POS + K - 1), p = e % (POS + K - 1);
            xs[ch][p] = c0 + ch < c && p0 + p < l ? src[(size_t)(c0 + ch) * l + p0 + p] : 0.0f;
        }
        for (int e = threadIdx.x; e < OUTS * CH * K; e += 256) {
            int q = e / (CH * K), t = e % (CH * K);
            ws[t][q] = o0 + q < o && c0 + t / K < c ? weight[((o0 + q) * c + c0) * K + t] : 0.0f;
        }
        __syncthreads();
        #pragma unroll 4
        for (int ch = 0; ch < CH; ++ch) {
            #pragma unroll
            for (int k = 0; k < K; ++k) {
                float4 a = *(const float4*)&ws[ch * K + k][warp * 8];
                float4 b = *(const float4*)&ws[ch * K + k][warp * 8 + 4];
                float w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    float v = xs[ch][lane + 32 * j + k];
                    #pragma unroll
                    for (int q = 0; q < 8; ++q) acc[q][j] += w[q] * v;
                }
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int q = 0; q < 8; ++q) {
        int out = o0 + warp * 8 + q;
        if (out >= o) break;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            int p = p0 + lane + 32 * j;
            if (p < ol) y[((size_t)blockIdx.z * o + out) * ol + p] = acc[q][j];
        }
    }
}
""")


def run(x, weight):
    n, c, length = x.shape
    o = weight.shape[0]
    ol = length - 2
    y = torch.empty((n, o, ol), device=x.device, dtype=torch.float32)
    grid = ((ol + 127) // 128, (o + 63) // 64, n)
    module.launch("conv_tile", grid=grid, block=256, args=(x, weight, y, c, length, o, ol))
    return y
