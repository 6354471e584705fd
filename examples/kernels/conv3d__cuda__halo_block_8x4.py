"""Three input planes with their halo and all taps of two channels staged at a time; a thread makes 8 filters by 4 rows."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define CH 2
#define OUTS 64
#define ROWS 4
#define COLS 32
extern "C" __global__ void __launch_bounds__(256) conv_halo(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int d, int h, int w, int o) {
    __shared__ float xs[CH][3][ROWS + 2][COLS + 2];
    __shared__ __align__(16) float ws[CH * 27][OUTS];
    int od = d - 2, oh = h - 2, ow = w - 2;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int groups = (o + OUTS - 1) / OUTS;
    int o0 = blockIdx.z % groups * OUTS, depth = blockIdx.z / groups % od, image = blockIdx.z / groups / od;
    int r0 = blockIdx.y * ROWS, q0 = blockIdx.x * COLS;
    const float* src = x + (size_t)image * c * d * h * w;
    float acc[8][ROWS];
    #pragma unroll
    for (int q = 0; q < 8; ++q)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) acc[q][r] = 0.0f;
    for (int c0 = 0; c0 < c; c0 += CH) {
        int here = min(CH, c - c0);
        for (int e = threadIdx.x; e < here * 3 * (ROWS + 2) * (COLS + 2); e += 256) {
            int q = e % (COLS + 2), r = e / (COLS + 2) % (ROWS + 2), z = e / ((COLS + 2) * (ROWS + 2));
            int ch = z / 3;
            z %= 3;
            bool inside = r0 + r < h && q0 + q < w;
            xs[ch][z][r][q] = inside ? src[((size_t)((c0 + ch) * d + depth + z) * h + r0 + r) * w + q0 + q] : 0.0f;
        }
        for (int e = threadIdx.x; e < OUTS * here * 27; e += 256) {
            int q = e / (here * 27), t = e % (here * 27);
            ws[t][q] = o0 + q < o ? weight[((o0 + q) * c + c0) * 27 + t] : 0.0f;
        }
        __syncthreads();
        for (int m = 0; m < here * 3; ++m) {
            #pragma unroll
            for (int j = 0; j < 3; ++j) {
                float v[ROWS + 2];
                #pragma unroll
                for (int r = 0; r < ROWS + 2; ++r) v[r] = xs[m / 3][m % 3][r][lane + j];
                #pragma unroll
                for (int i = 0; i < 3; ++i) {
                    float4 a = *(const float4*)&ws[m * 9 + i * 3 + j][warp * 8];
                    float4 b = *(const float4*)&ws[m * 9 + i * 3 + j][warp * 8 + 4];
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
            if (out < o && r0 + r < oh && col < ow)
                y[((((size_t)image * o + out) * od + depth) * oh + r0 + r) * ow + col] = acc[q][r];
    }
}
""")


def run(x, weight):
    n, c, d, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, d - 2, h - 2, w - 2), device=x.device, dtype=torch.float32)
    grid = ((w - 2 + 31) // 32, (h - 2 + 3) // 4, n * (d - 2) * ((o + 63) // 64))
    module.launch("conv_halo", grid=grid, block=256, args=(x, weight, y, c, d, h, w, o))
    return y
