"""A block marches through the slices of an image tile; each slice enters shared memory once and feeds three outputs."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUT 4
#define SIDE 16
extern "C" __global__ void __launch_bounds__(256) march(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ conv_bias, const float* __restrict__ scale, const float* __restrict__ bias, float* __restrict__ y, int c, int d, int h, int wide, int o, int across) {
    extern __shared__ __align__(16) float shared_floats[];
    float* filters = shared_floats;
    float* image = filters + c * 27 * OUT;
    int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE, od = d - 2, oh = h - 2, ow = wide - 2;
    int col0 = blockIdx.x % across * SIDE, row0 = blockIdx.x / across * SIDE, o0 = blockIdx.y * OUT;
    for (int i = threadIdx.x; i < c * 27 * OUT; i += 256) filters[i] = o0 + i % OUT < o ? w[(o0 + i % OUT) * c * 27 + i / OUT] : 0.0f;
    // Outputs that still wait for two, one and no further slices.
    float first[OUT] = {}, second[OUT] = {};
    for (int s = 0; s < d; ++s) {
        __syncthreads();
        for (int i = threadIdx.x; i < c * (SIDE + 2) * (SIDE + 2); i += 256) {
            int col = col0 + i % (SIDE + 2), row = row0 + i / (SIDE + 2) % (SIDE + 2), ch = i / ((SIDE + 2) * (SIDE + 2));
            image[i] = row < h && col < wide ? x[((((long long)blockIdx.z * c + ch) * d + s) * h + row) * wide + col] : 0.0f;
        }
        __syncthreads();
        float done[OUT], next[OUT], fresh[OUT];
        #pragma unroll
        for (int q = 0; q < OUT; ++q) { done[q] = second[q]; next[q] = first[q]; fresh[q] = 0.0f; }
        for (int ch = 0; ch < c; ++ch)
            #pragma unroll
            for (int t = 0; t < 9; ++t) {
                float v = image[(ch * (SIDE + 2) + ty + t / 3) * (SIDE + 2) + tx + t % 3];
                float4 f0 = *(const float4*)(filters + (ch * 27 + t) * OUT);
                float4 f1 = *(const float4*)(filters + (ch * 27 + 9 + t) * OUT);
                float4 f2 = *(const float4*)(filters + (ch * 27 + 18 + t) * OUT);
                fresh[0] += v * f0.x; fresh[1] += v * f0.y; fresh[2] += v * f0.z; fresh[3] += v * f0.w;
                next[0] += v * f1.x; next[1] += v * f1.y; next[2] += v * f1.z; next[3] += v * f1.w;
                done[0] += v * f2.x; done[1] += v * f2.y; done[2] += v * f2.z; done[3] += v * f2.w;
            }
        #pragma unroll
        for (int q = 0; q < OUT; ++q) { first[q] = fresh[q]; second[q] = next[q]; }
        int row = row0 + ty, col = col0 + tx;
        if (s < 2 || row >= oh || col >= ow) continue;
        #pragma unroll
        for (int q = 0; q < OUT; ++q)
            if (o0 + q < o) {
                float v = tanhf((done[q] + conv_bias[o0 + q]) * scale[o0 + q]) * bias[o0 + q];
                y[((((long long)blockIdx.z * o + o0 + q) * od + s - 2) * oh + row) * ow + col] = 1.0f / (1.0f + expf(-v));
            }
    }
}
""")


def run(x, weight, conv_bias, scale, bias):
    n, c, d, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, d - 2, h - 2, w - 2), device=x.device, dtype=torch.float32)
    across, down = (w - 2 + 15) // 16, (h - 2 + 15) // 16
    grid = (across * down, (o + 3) // 4, n)
    args = (x, weight, conv_bias, scale, bias, y, c, d, h, w, o, across)
    module.launch("march", grid=grid, block=256, args=args, shared_bytes=4 * c * (27 * 4 + 18 * 18))
    return y
