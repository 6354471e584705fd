"""A padded convolution with mirrored taps: halo and weights in shared memory, eight channels by five rows a thread."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define CH 8
#define OUTS 64
#define ROWS 5
#define COLS 32
extern "C" __global__ void __launch_bounds__(256) mirrored(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int h, int w, int o) {
    __shared__ float xs[CH][ROWS + 2][COLS + 2];
    __shared__ __align__(16) float ws[CH * 9][OUTS];
    int oh = h + 2, ow = w + 2;
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
            int row = r0 + r - 2, col = q0 + q - 2;
            bool inside = row >= 0 && row < h && col >= 0 && col < w;
            xs[ch][r][q] = inside ? src[((size_t)(c0 + ch) * h + row) * w + col] : 0.0f;
        }
        for (int e = threadIdx.x; e < here * OUTS * 9; e += 256) {
            int t = e % 9, q = e / 9 % OUTS, ch = e / (9 * OUTS);
            // The last tap comes first: an output's first neighbour in the halo lies two rows and columns behind it.
            ws[ch * 9 + 8 - t][q] = o0 + q < o ? weight[((c0 + ch) * o + o0 + q) * 9 + t] : 0.0f;
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
    o = weight.shape[1]
    y = torch.empty((n, o, h + 2, w + 2), device=x.device, dtype=torch.float32)
    grid = ((w + 2 + 31) // 32, (h + 2 + 4) // 5, n * ((o + 63) // 64))
    module.launch("mirrored", grid=grid, block=256, args=(x, weight, y, c, h, w, o))
    return y
