"""A thread turns the eight inputs at a voxel's far corner into its two by two by two outputs for four channels."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUTS 4
extern "C" __global__ void __launch_bounds__(128) cubes(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int cg, int d, int h, int w, int og) {
    extern __shared__ __align__(16) float taps[];  // [channel][27][OUTS]
    int sets = (og + OUTS - 1) / OUTS;
    int o0 = blockIdx.y % sets * OUTS, group = blockIdx.y / sets, g = group % 4;
    for (int e = threadIdx.x; e < cg * 27 * OUTS; e += blockDim.x) {
        int f = e % OUTS, t = e / OUTS % 27, ch = e / (27 * OUTS);
        taps[e] = o0 + f < og ? weight[((g * cg + ch) * og + o0 + f) * 27 + t] : 0.0f;
    }
    __syncthreads();
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= d * h * w) return;
    int z = p / (h * w), r = p / w % h, q = p % w;
    bool nz = z + 1 < d, nr = r + 1 < h, nq = q + 1 < w;
    float acc[8][OUTS];
    #pragma unroll
    for (int e = 0; e < 8; ++e)
        #pragma unroll
        for (int f = 0; f < OUTS; ++f) acc[e][f] = 0.0f;
    const float* src = x + (size_t)group * cg * d * h * w + p;
    for (int ch = 0; ch < cg; ++ch, src += (size_t)d * h * w) {
        float v[8];
        #pragma unroll
        for (int e = 0; e < 8; ++e) {
            bool inside = (!(e & 4) || nz) && (!(e & 2) || nr) && (!(e & 1) || nq);
            v[e] = inside ? src[(e & 4 ? h * w : 0) + (e & 2 ? w : 0) + (e & 1)] : 0.0f;
        }
        const float4* f = (const float4*)(taps + ch * 27 * OUTS);
        #pragma unroll
        for (int t = 0; t < 27; ++t) {
            // Tap 1 makes the even output; taps 0 and 2 the odd one, tap 0 from the next input along.
            int kz = t / 9, kr = t / 3 % 3, kq = t % 3;
            int to = (kz != 1) * 4 + (kr != 1) * 2 + (kq != 1);
            float from = v[(kz == 0) * 4 + (kr == 0) * 2 + (kq == 0)];
            float4 m = f[t];
            acc[to][0] += m.x * from;
            acc[to][1] += m.y * from;
            acc[to][2] += m.z * from;
            acc[to][3] += m.w * from;
        }
    }
    int oh = 2 * h - 1, ow = 2 * w - 1;
    size_t volume = (size_t)(2 * d - 1) * oh * ow;
    #pragma unroll
    for (int f = 0; f < OUTS; ++f) {
        if (o0 + f >= og) break;
        float* out = y + ((size_t)group * og + o0 + f) * volume + ((size_t)2 * z * oh + 2 * r) * ow + 2 * q;
        #pragma unroll
        for (int e = 0; e < 8; ++e)
            if ((!(e & 4) || nz) && (!(e & 2) || nr) && (!(e & 1) || nq))
                out[(e & 4 ? oh * ow : 0) + (e & 2 ? ow : 0) + (e & 1)] = acc[e][f];
    }
}
""")


def run(x, weight):
    n, c, d, h, w = x.shape
    og = weight.shape[1]
    y = torch.empty((n, 4 * og, 2 * d - 1, 2 * h - 1, 2 * w - 1), device=x.device, dtype=torch.float32)
    grid = ((d * h * w + 127) // 128, n * 4 * ((og + 3) // 4))
    args = (x, weight, y, c // 4, d, h, w, og)
    module.launch("cubes", grid=grid, block=128, args=args, shared_bytes=4 * (c // 4) * 27 * 4)
    return y
