"""Input side: a thread sums its pixel's nine-value patches, the block overlaps them in shared memory and adds them out."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define FILTERS 4
#define TH 8
#define TW 32
extern "C" __global__ void patches(const float* __restrict__ x, const float* __restrict__ weight, float* y, int c, int h, int w, int o) {
    __shared__ float tile[FILTERS][TH + 2][TW + 2];
    int groups = (o + FILTERS - 1) / FILTERS, image = blockIdx.z / groups, o0 = blockIdx.z % groups * FILTERS;
    int tx = threadIdx.x, ty = threadIdx.y, tid = ty * TW + tx;
    int r0 = blockIdx.y * TH, q0 = blockIdx.x * TW, row = r0 + ty, col = q0 + tx;
    for (int e = tid; e < FILTERS * (TH + 2) * (TW + 2); e += TH * TW) ((float*)tile)[e] = 0.0f;
    float acc[FILTERS][9];
    #pragma unroll
    for (int f = 0; f < FILTERS; ++f)
        #pragma unroll
        for (int t = 0; t < 9; ++t) acc[f][t] = 0.0f;
    if (row < h && col < w) {
        const float* src = x + ((size_t)image * c * h + row) * w + col;
        for (int ch = 0; ch < c; ++ch) {
            float v = src[(size_t)ch * h * w];
            #pragma unroll
            for (int f = 0; f < FILTERS; ++f) {
                const float* taps = weight + (ch * o + min(o0 + f, o - 1)) * 9;
                #pragma unroll
                for (int t = 0; t < 9; ++t) acc[f][t] += __ldg(taps + t) * v;
            }
        }
    }
    // Within one tap all threads write different places, so a barrier between taps is enough.
    #pragma unroll
    for (int t = 0; t < 9; ++t) {
        __syncthreads();
        #pragma unroll
        for (int f = 0; f < FILTERS; ++f) tile[f][ty + t / 3][tx + t % 3] += acc[f][t];
    }
    __syncthreads();
    int oh = h + 2, ow = w + 2;
    for (int e = tid; e < FILTERS * (TH + 2) * (TW + 2); e += TH * TW) {
        int q = e % (TW + 2), r = e / (TW + 2) % (TH + 2), f = e / ((TW + 2) * (TH + 2));
        if (o0 + f >= o || r0 + r >= oh || q0 + q >= ow) continue;
        float* out = y + (((size_t)image * o + o0 + f) * oh + r0 + r) * ow + q0 + q;
        atomicAdd(out, tile[f][r][q]);
    }
}
""")


def run(x, weight):
    n, c, h, w = x.shape
    o = weight.shape[1]
    y = torch.zeros((n, o, h + 2, w + 2), device=x.device, dtype=torch.float32)
    grid = ((w + 31) // 32, (h + 7) // 8, n * ((o + 3) // 4))
    module.launch("patches", grid=grid, block=(32, 8), args=(x, weight, y, c, h, w, o))
    return y
