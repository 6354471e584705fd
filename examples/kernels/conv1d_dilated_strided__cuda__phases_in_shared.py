"""Staging sorts positions by their rest modulo 3, so lanes read neighbours; a warp makes 16 filters by 128 positions."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define CH 8
#define OUTS 128
#define POS 128
#define SPAN (POS + 2)
extern "C" __global__ void __launch_bounds__(256) conv_phases(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int l, int o, int ol) {
    __shared__ float xs[CH][3][SPAN];
    __shared__ __align__(16) float ws[CH * 3][OUTS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int p0 = blockIdx.x * POS, o0 = blockIdx.y * OUTS;
    const float* src = x + (size_t)blockIdx.z * c * l;
    float acc[16][4];
    #pragma unroll
    for (int q = 0; q < 16; ++q)
        #pragma unroll
        for (int j = 0; j < 4; ++j) acc[q][j] = 0.0f;
    for (int c0 = 0; c0 < c; c0 += CH) {
        for (int e = threadIdx.x; e < CH * SPAN * 3; e += 256) {
            int ch = e / (SPAN * 3), i = e % (SPAN * 3);
            int at = 3 * p0 + i;
            xs[ch][i % 3][i / 3] = c0 + ch < c && at < l ? src[(size_t)(c0 + ch) * l + at] : 0.0f;
        }
        for (int e = threadIdx.x; e < OUTS * CH * 3; e += 256) {
            int q = e / (CH * 3), t = e % (CH * 3);
            ws[t][q] = o0 + q < o && c0 + t / 3 < c ? weight[((o0 + q) * c + c0) * 3 + t] : 0.0f;
        }
        __syncthreads();
        #pragma unroll 2
        for (int ch = 0; ch < CH; ++ch) {
            #pragma unroll
            for (int k = 0; k < 3; ++k) {
                // Place 3p + 4k is number p + k of phase k.
                float v[4];
                #pragma unroll
                for (int j = 0; j < 4; ++j) v[j] = xs[ch][k][lane + 32 * j + k];
                #pragma unroll
                for (int q = 0; q < 16; q += 4) {
                    float4 w = *(const float4*)&ws[ch * 3 + k][warp * 16 + q];
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        acc[q][j] += w.x * v[j];
                        acc[q + 1][j] += w.y * v[j];
                        acc[q + 2][j] += w.z * v[j];
                        acc[q + 3][j] += w.w * v[j];
                    }
                }
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int q = 0; q < 16; ++q) {
        int out = o0 + warp * 16 + q;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            int p = p0 + lane + 32 * j;
            if (out < o && p < ol) y[((size_t)blockIdx.z * o + out) * ol + p] = acc[q][j];
        }
    }
}
""")


def run(x, weight):
    n, c, length = x.shape
    o = weight.shape[0]
    ol = (length - 9) // 3 + 1
    y = torch.empty((n, o, ol), device=x.device, dtype=torch.float32)
    grid = ((ol + 127) // 128, (o + 127) // 128, n)
    module.launch("conv_phases", grid=grid, block=256, args=(x, weight, y, c, length, o, ol))
    return y
