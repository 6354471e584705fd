"""A warp owns an output row: its depth and row taps are the same for all lanes, and each input row is read only once."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUTS 8
extern "C" __global__ void rows(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int cg, int d, int h, int w, int og) {
    extern __shared__ __align__(16) float taps[];  // [channel][27][OUTS]
    int sets = (og + OUTS - 1) / OUTS;
    int o0 = blockIdx.y % sets * OUTS, group = blockIdx.y / sets, g = group % 4;
    for (int e = threadIdx.y * 32 + threadIdx.x; e < cg * 27 * OUTS; e += 128) {
        int f = e % OUTS, t = e / OUTS % 27, ch = e / (27 * OUTS);
        taps[e] = o0 + f < og ? weight[((g * cg + ch) * og + o0 + f) * 27 + t] : 0.0f;
    }
    __syncthreads();
    int od = 2 * d - 1, oh = 2 * h - 1, ow = 2 * w - 1;
    int line = blockIdx.x * 4 + threadIdx.y;
    if (line >= od * oh) return;
    int z = line / oh, r = line % oh;
    const float* volume = x + (size_t)group * cg * d * h * w;
    for (int q0 = 0; q0 < w; q0 += 32) {
        int q = q0 + threadIdx.x;
        float even[OUTS], odd[OUTS];
        #pragma unroll
        for (int f = 0; f < OUTS; ++f) even[f] = odd[f] = 0.0f;
        for (int kz = (z + 1) % 2; kz < 3; kz += 2)
            for (int kr = (r + 1) % 2; kr < 3; kr += 2) {
                const float* src = volume + ((size_t)(z + 1 - kz) / 2 * h + (r + 1 - kr) / 2) * w;
                for (int ch = 0; ch < cg; ++ch, src += (size_t)d * h * w) {
                    float here = q < w ? src[q] : 0.0f;
                    float next = __shfl_down_sync(0xffffffffu, here, 1);
                    if (threadIdx.x == 31) next = q + 1 < w ? src[q + 1] : 0.0f;
                    const float* f0 = taps + (ch * 27 + kz * 9 + kr * 3) * OUTS;
                    #pragma unroll
                    for (int f = 0; f < OUTS; ++f) {
                        even[f] += f0[OUTS + f] * here;
                        odd[f] += f0[f] * next + f0[2 * OUTS + f] * here;
                    }
                }
            }
        #pragma unroll
        for (int f = 0; f < OUTS; ++f) {
            if (o0 + f >= og) break;
            float* out = y + (((size_t)group * og + o0 + f) * od * oh + line) * ow;
            if (q < w) out[2 * q] = even[f];
            if (q < w - 1) out[2 * q + 1] = odd[f];
        }
    }
}
""")


def run(x, weight):
    n, c, d, h, w = x.shape
    og = weight.shape[1]
    y = torch.empty((n, 4 * og, 2 * d - 1, 2 * h - 1, 2 * w - 1), device=x.device, dtype=torch.float32)
    lines = (2 * d - 1) * (2 * h - 1)
    grid = ((lines + 3) // 4, n * 4 * ((og + 7) // 8))
    args = (x, weight, y, c // 4, d, h, w, og)
    module.launch("rows", grid=grid, block=(32, 4), args=args, shared_bytes=4 * (c // 4) * 27 * 8)
    return y
