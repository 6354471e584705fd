"""Four warps share 32 positions and 16 filters, each sums a quarter of the channels, and shared memory adds them up."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define FILTERS 16
#define WARPS 4
extern "C" __global__ void conv_split(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int l, int o, int ol) {
    extern __shared__ float taps[];
    __shared__ float part[WARPS][FILTERS][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int p = blockIdx.x * 32 + lane, o0 = blockIdx.y * FILTERS;
    // Laid out [channel][tap][filter]: a step of the inner loop reads sixteen neighbours.
    for (int e = threadIdx.x; e < c * 3 * FILTERS; e += blockDim.x) {
        int f = e % FILTERS, t = e / FILTERS;
        taps[e] = o0 + f < o ? weight[(o0 + f) * c * 3 + t] : 0.0f;
    }
    __syncthreads();
    float acc[FILTERS];
    #pragma unroll
    for (int f = 0; f < FILTERS; ++f) acc[f] = 0.0f;
    if (p < ol) {
        for (int ch = warp; ch < c; ch += WARPS) {
            const float* src = x + ((size_t)blockIdx.z * c + ch) * l + 3 * p;
            #pragma unroll
            for (int k = 0; k < 3; ++k) {
                float v = src[4 * k];
                const float* w = taps + (ch * 3 + k) * FILTERS;
                #pragma unroll
                for (int f = 0; f < FILTERS; ++f) acc[f] += w[f] * v;
            }
        }
    }
    #pragma unroll
    for (int f = 0; f < FILTERS; ++f) part[warp][f][lane] = acc[f];
    __syncthreads();
    for (int f = warp; f < FILTERS; f += WARPS) {
        float sum = part[0][f][lane] + part[1][f][lane] + part[2][f][lane] + part[3][f][lane];
        if (p < ol && o0 + f < o) y[((size_t)blockIdx.z * o + o0 + f) * ol + p] = sum;
    }
}
""")


def run(x, weight):
    n, c, length = x.shape
    o = weight.shape[0]
    ol = (length - 9) // 3 + 1
    y = torch.empty((n, o, ol), device=x.device, dtype=torch.float32)
    grid = ((ol + 31) // 32, (o + 15) // 16, n)
    args = (x, weight, y, c, length, o, ol)
    module.launch("conv_split", grid=grid, block=128, args=args, shared_bytes=4 * c * 3 * 16)
    return y
