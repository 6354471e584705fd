"""A thread stands on a pixel and marches through depth: each plane it reads feeds the three outputs in the making."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUTS 8
extern "C" __global__ void conv_march(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int d, int h, int w, int o) {
    extern __shared__ float taps[];  // [channel][27][OUTS]
    int od = d - 2, oh = h - 2, ow = w - 2;
    int groups = (o + OUTS - 1) / OUTS, image = blockIdx.y / groups, o0 = blockIdx.y % groups * OUTS;
    for (int e = threadIdx.x; e < c * 27 * OUTS; e += blockDim.x) {
        int q = e % OUTS, t = e / OUTS;
        taps[e] = o0 + q < o ? weight[(o0 + q) * c * 27 + t] : 0.0f;
    }
    __syncthreads();
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= oh * ow) return;
    const float* column = x + (size_t)image * c * d * h * w + p / ow * w + p % ow;
    // acc[t] collects output depth z - t while plane z is read.
    float acc[3][OUTS];
    #pragma unroll
    for (int q = 0; q < OUTS; ++q) acc[0][q] = acc[1][q] = acc[2][q] = 0.0f;
    for (int z = 0; z < d; ++z) {
        for (int ch = 0; ch < c; ++ch) {
            const float* src = column + ((size_t)ch * d + z) * h * w;
            #pragma unroll
            for (int e = 0; e < 9; ++e) {
                float v = src[e / 3 * w + e % 3];
                #pragma unroll
                for (int t = 0; t < 3; ++t) {
                    const float* f = taps + ((ch * 3 + t) * 9 + e) * OUTS;
                    #pragma unroll
                    for (int q = 0; q < OUTS; ++q) acc[t][q] += f[q] * v;
                }
            }
        }
        #pragma unroll
        for (int q = 0; q < OUTS; ++q) {
            if (z >= 2 && o0 + q < o) y[(((size_t)image * o + o0 + q) * od + z - 2) * oh * ow + p] = acc[2][q];
            acc[2][q] = acc[1][q];
            acc[1][q] = acc[0][q];
            acc[0][q] = 0.0f;
        }
    }
}
""")


def run(x, weight):
    n, c, d, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, d - 2, h - 2, w - 2), device=x.device, dtype=torch.float32)
    pixels = (h - 2) * (w - 2)
    grid = ((pixels + 63) // 64, n * ((o + 7) // 8))
    args = (x, weight, y, c, d, h, w, o)
    module.launch("conv_march", grid=grid, block=64, args=args, shared_bytes=4 * c * 27 * 8)
    return y
