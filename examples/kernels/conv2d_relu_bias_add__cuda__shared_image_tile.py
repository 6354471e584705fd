"""A block keeps a square of the image and eight filters in shared memory; a thread owns one pixel."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define SIDE 16
#define OUT 8
#define CHANNELS 8
extern "C" __global__ void __launch_bounds__(256) tiles(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ conv_bias, const float* __restrict__ bias, float* __restrict__ y, int c, int h, int wide, int o, int across) {
    __shared__ float image[CHANNELS][SIDE + 2][SIDE + 2];
    __shared__ float filters[CHANNELS][9][OUT];
    int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE, oh = h - 2, ow = wide - 2;
    int col0 = blockIdx.x % across * SIDE, row0 = blockIdx.x / across * SIDE, o0 = blockIdx.y * OUT;
    const float* p = x + (long long)blockIdx.z * c * h * wide;
    float acc[OUT] = {};
    for (int c0 = 0; c0 < c; c0 += CHANNELS) {
        for (int i = threadIdx.x; i < CHANNELS * (SIDE + 2) * (SIDE + 2); i += 256) {
            int col = i % (SIDE + 2), row = i / (SIDE + 2) % (SIDE + 2), ch = i / ((SIDE + 2) * (SIDE + 2));
            bool inside = c0 + ch < c && row0 + row < h && col0 + col < wide;
            image[ch][row][col] = inside ? p[((c0 + ch) * h + row0 + row) * wide + col0 + col] : 0.0f;
        }
        for (int i = threadIdx.x; i < CHANNELS * 9 * OUT; i += 256) {
            int q = i % OUT, t = i / OUT % 9, ch = i / (OUT * 9);
            filters[ch][t][q] = c0 + ch < c && o0 + q < o ? w[((o0 + q) * c + c0 + ch) * 9 + t] : 0.0f;
        }
        __syncthreads();
        for (int ch = 0; ch < CHANNELS; ++ch)
            #pragma unroll
            for (int t = 0; t < 9; ++t) {
                float v = image[ch][ty + t / 3][tx + t % 3];
                #pragma unroll
                for (int q = 0; q < OUT; ++q) acc[q] += v * filters[ch][t][q];
            }
        __syncthreads();
    }
    int row = row0 + ty, col = col0 + tx;
    if (row >= oh || col >= ow) return;
    #pragma unroll
    for (int q = 0; q < OUT; ++q)
        if (o0 + q < o) y[(((long long)blockIdx.z * o + o0 + q) * oh + row) * ow + col] = fmaxf(acc[q] + conv_bias[o0 + q], 0.0f) + bias[o0 + q];
}
""")


def run(x, weight, conv_bias, bias):
    n, c, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, h - 2, w - 2), device=x.device, dtype=torch.float32)
    across, down = (w - 2 + 15) // 16, (h - 2 + 15) // 16
    grid = (across * down, (o + 7) // 8, n)
    module.launch("tiles", grid=grid, block=256, args=(x, weight, conv_bias, bias, y, c, h, w, o, across))
    return y
