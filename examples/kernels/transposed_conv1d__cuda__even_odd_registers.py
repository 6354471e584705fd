"""A thread makes even and odd outputs of four inputs for eight channels and writes each pair as one float2."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define CH 16
#define OUTS 64
#define POS 128
extern "C" __global__ void __launch_bounds__(256) even_odd(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int l, int o) {
    __shared__ float xs[CH][POS + 2];
    __shared__ __align__(16) float ws[CH * 4][OUTS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int p0 = blockIdx.x * POS, o0 = blockIdx.y * OUTS;
    const float* src = x + (size_t)blockIdx.z * c * l;
    float even[8][4], odd[8][4];
    #pragma unroll
    for (int q = 0; q < 8; ++q)
        #pragma unroll
        for (int j = 0; j < 4; ++j) even[q][j] = odd[q][j] = 0.0f;
    for (int c0 = 0; c0 < c; c0 += CH) {
        int here = min(CH, c - c0);
        for (int e = threadIdx.x; e < here * (POS + 2); e += 256) {
            int ch = e / (POS + 2), p = e % (POS + 2), at = p0 + p - 1;
            xs[ch][p] = at >= 0 && at < l ? src[(size_t)(c0 + ch) * l + at] : 0.0f;
        }
        for (int e = threadIdx.x; e < here * OUTS * 4; e += 256) {
            int k = e % 4, q = e / 4 % OUTS, ch = e / (4 * OUTS);
            ws[ch * 4 + k][q] = o0 + q < o ? weight[((c0 + ch) * o + o0 + q) * 4 + k] : 0.0f;
        }
        __syncthreads();
        for (int ch = 0; ch < here; ++ch) {
            float left[4], mid[4], right[4];
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                left[j] = xs[ch][lane + 32 * j];
                mid[j] = xs[ch][lane + 32 * j + 1];
                right[j] = xs[ch][lane + 32 * j + 2];
            }
            #pragma unroll
            for (int half = 0; half < 8; half += 4) {
                float4 w0 = *(const float4*)&ws[ch * 4][warp * 8 + half], w1 = *(const float4*)&ws[ch * 4 + 1][warp * 8 + half];
                float4 w2 = *(const float4*)&ws[ch * 4 + 2][warp * 8 + half], w3 = *(const float4*)&ws[ch * 4 + 3][warp * 8 + half];
                float a[4] = {w0.x, w0.y, w0.z, w0.w}, b[4] = {w1.x, w1.y, w1.z, w1.w};
                float d[4] = {w2.x, w2.y, w2.z, w2.w}, f[4] = {w3.x, w3.y, w3.z, w3.w};
                #pragma unroll
                for (int q = 0; q < 4; ++q)
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        even[half + q][j] += b[q] * mid[j] + f[q] * left[j];
                        odd[half + q][j] += a[q] * right[j] + d[q] * mid[j];
                    }
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int q = 0; q < 8; ++q) {
        int out = o0 + warp * 8 + q;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            int p = p0 + lane + 32 * j;
            if (out < o && p < l) *(float2*)(y + (((size_t)blockIdx.z * o + out) * l + p) * 2) = make_float2(even[q][j], odd[q][j]);
        }
    }
}
""")


def run(x, weight):
    n, c, length = x.shape
    o = weight.shape[1]
    y = torch.empty((n, o, 2 * length), device=x.device, dtype=torch.float32)
    grid = ((length + 127) // 128, (o + 63) // 64, n)
    module.launch("even_odd", grid=grid, block=256, args=(x, weight, y, c, length, o))
    return y
