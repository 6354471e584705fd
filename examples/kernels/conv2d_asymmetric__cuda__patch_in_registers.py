"""A thread gathers the 3 by 5 neighbourhood of its pixel once a channel and spends it on sixteen output channels."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define KH 3
#define KW 5
#define OUT 16
extern "C" __global__ void conv_patch(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int h, int w, int o, int oh, int ow) {
    extern __shared__ float taps[];
    int groups = (o + OUT - 1) / OUT;
    int image = blockIdx.z / groups, o0 = blockIdx.z % groups * OUT;
    int tid = threadIdx.y * blockDim.x + threadIdx.x;
    // Laid out [channel][tap][output], so that one tap's sixteen weights are neighbours.
    for (int e = tid; e < c * KH * KW * OUT; e += blockDim.x * blockDim.y) {
        int q = e % OUT, t = e / OUT;
        taps[e] = o0 + q < o ? weight[(o0 + q) * c * KH * KW + t] : 0.0f;
    }
    __syncthreads();
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= ow || row >= oh) return;
    float acc[OUT];
    #pragma unroll
    for (int q = 0; q < OUT; ++q) acc[q] = 0.0f;
    for (int ch = 0; ch < c; ++ch) {
        const float* src = x + ((long long)(image * c + ch) * h + row) * w + col;
        #pragma unroll
        for (int i = 0; i < KH; ++i)
            #pragma unroll
            for (int j = 0; j < KW; ++j) {
                float v = src[i * w + j];
                const float* t = taps + ((ch * KH + i) * KW + j) * OUT;
                #pragma unroll
                for (int q = 0; q < OUT; ++q) acc[q] += v * t[q];
            }
    }
    #pragma unroll
    for (int q = 0; q < OUT; ++q)
        if (o0 + q < o) y[(((long long)image * o + o0 + q) * oh + row) * ow + col] = acc[q];
}
""")


def run(x, weight):
    n, c, h, w = x.shape
    o = weight.shape[0]
    oh, ow = h - 2, w - 4
    y = torch.empty((n, o, oh, ow), device=x.device, dtype=torch.float32)
    grid = ((ow + 31) // 32, (oh + 7) // 8, n * ((o + 15) // 16))
    module.launch(
        "conv_patch", grid=grid, block=(32, 8), args=(x, weight, y, c, h, w, o, oh, ow), shared_bytes=4 * c * 15 * 16
    )
    return y
