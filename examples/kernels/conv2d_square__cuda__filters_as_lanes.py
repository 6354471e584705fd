"""Each thread is a filter with nine weights in registers sliding along eight pixels that all threads read together."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUTS 64
#define RUN 8
#define COLS 32
extern "C" __global__ void __launch_bounds__(256) conv_filters(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int h, int w, int o, int oh, int ow) {
    __shared__ float xs[2][3][COLS + 2];
    __shared__ float turned[OUTS][COLS + 1];
    int filter = threadIdx.x % OUTS, part = threadIdx.x / OUTS;
    int groups = (o + OUTS - 1) / OUTS, image = blockIdx.z / groups, o0 = blockIdx.z % groups * OUTS;
    int row = blockIdx.y, q0 = blockIdx.x * COLS;
    const float* taps = weight + (size_t)min(o0 + filter, o - 1) * c * 9;
    float acc[RUN];
    #pragma unroll
    for (int i = 0; i < RUN; ++i) acc[i] = 0.0f;
    for (int ch = 0; ch < c; ++ch) {
        float (*now)[COLS + 2] = xs[ch & 1];
        if (threadIdx.x < 3 * (COLS + 2)) {
            int r = threadIdx.x / (COLS + 2), q = threadIdx.x % (COLS + 2);
            now[r][q] = q0 + q < w ? x[(((size_t)image * c + ch) * h + row + r) * w + q0 + q] : 0.0f;
        }
        float f[9];
        #pragma unroll
        for (int t = 0; t < 9; ++t) f[t] = taps[ch * 9 + t];
        __syncthreads();
        #pragma unroll
        for (int r = 0; r < 3; ++r) {
            const float* v = now[r] + part * RUN;
            float a = v[0], b = v[1];
            #pragma unroll
            for (int i = 0; i < RUN; ++i) {
                float next = v[i + 2];
                acc[i] += f[r * 3] * a + f[r * 3 + 1] * b + f[r * 3 + 2] * next;
                a = b;
                b = next;
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < RUN; ++i) turned[filter][part * RUN + i] = acc[i];
    __syncthreads();
    for (int e = threadIdx.x; e < OUTS * COLS; e += 256) {
        int q = e / COLS, col = e % COLS;
        if (o0 + q < o && q0 + col < ow) y[(((size_t)image * o + o0 + q) * oh + row) * ow + q0 + col] = turned[q][col];
    }
}
""")


def run(x, weight):
    n, c, h, w = x.shape
    o = weight.shape[0]
    oh, ow = h - 2, w - 2
    y = torch.empty((n, o, oh, ow), device=x.device, dtype=torch.float32)
    grid = ((ow + 31) // 32, oh, n * ((o + 63) // 64))
    module.launch("conv_filters", grid=grid, block=256, args=(x, weight, y, c, h, w, o, oh, ow))
    return y
