"""Input halo and weights staged in shared memory; a thread makes eight channels of four rows from eighteen values."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define CH 8
#define OUTS 64
#define ROWS 4
#define COLS 32
extern "C" __global__ void __launch_bounds__(256) conv_halo(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int h, int w, int o, int oh, int ow) {
    __shared__ float xs[CH][ROWS + 2][COLS + 2];
    __shared__ __align__(16) float ws[CH * 9][OUTS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int groups = (o + OUTS - 1) / OUTS, image = blockIdx.z / groups, o0 = blockIdx.z % groups * OUTS;
    int r0 = blockIdx.y * ROWS, q0 = blockIdx.x * COLS;
    const float* src = x + (size_t)image * c * h * w;
    float acc[8][ROWS];
    #pragma unroll
    for (int q = 0; q < 8; ++q)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) acc[q][r] = 0.0f;
    for (int c0 = 0; c0 < c; c0 += CH) {
        int here = min(CH, c - c0);
        for (int e = threadIdx.x; e < here * (ROWS + 2) * (COLS + 2); e += 256) {
            int ch = e / ((ROWS + 2) * (COLS + 2)), r = e / (COLS + 2) % (ROWS + 2), q = e % (COLS + 2);
            xs[ch][r][q] = r0 + r < h && q0 + q < w ? src[((size_t)(c0 + ch) * h + r0 + r) * w + q0 + q] : 0.0f;
        }
        for (int e = threadIdx.x; e < OUTS * here * 9; e += 256) {
            int q = e / (here * 9), t = e % (here * 9);
            ws[t][q] = o0 + q < o ? weight[((o0 + q) * c + c0) * 9 + t] : 0.0f;
        }
        __syncthreads();
        for (int ch = 0; ch < here; ++ch) {
            #pragma unroll
            for (int j = 0; j < 3; ++j) {
                float v[ROWS + 2];
                #pragma unroll
                for (int r = 0; r < ROWS + 2; ++r) v[r] = xs[ch][r][lane + j];
                #pragma unroll
                for (int i = 0; i < 3; ++i) {
                    float4 a = *(const float4*)&ws[ch * 9 + i * 3 + j][warp * 8];
                    float4 b = *(const float4*)&ws[ch * 9 + i * 3 + j][warp * 8 + 4];
                    float f[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
                    #pragma unroll
                    for (int q = 0; q < 8; ++q)
                        #pragma unroll
                        for (int r = 0; r < ROWS; ++r) acc[q][r] += f[q] * v[r + i];
                }
            }
        }
        __syncthreads();
    }
    int col = q0 + lane;
    #pragma unroll
    for (int q = 0; q < 8; ++q) {
        int out = o0 + warp * 8 + q;
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (out < o && r0 + r < oh && col < ow) y[(((size_t)image * o + out) * oh + r0 + r) * ow + col] = acc[q][r];
    }
}
""")


def run(x, weight):
    n, c, h, w = x.shape
    o = weight.shape[0]
    oh, ow = h - 2, w - 2
    y = torch.empty((n, o, oh, ow), device=x.device, dtype=torch.float32)
    grid = ((ow + 31) // 32, (oh + 3) // 4, n * ((o + 63) // 64))
    module.launch("conv_halo", grid=grid, block=256, args=(x, weight, y, c, h, w, o, oh, ow))
    return y
