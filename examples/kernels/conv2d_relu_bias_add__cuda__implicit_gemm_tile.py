"""A product of 64 filters by 128 pixels per block, patches gathered into shared memory, 8 by 4 a thread."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define OUT 64
#define PIXELS 128
#define DEEP 16
extern "C" __global__ void __launch_bounds__(256) product(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ conv_bias, const float* __restrict__ bias, float* __restrict__ y, int c, int h, int wide, int o, int pixels) {
    __shared__ __align__(16) float ws[DEEP][OUT + 4];
    __shared__ __align__(16) float xs[DEEP][PIXELS];
    int tx = threadIdx.x % 32, ty = threadIdx.x / 32, p0 = blockIdx.x * PIXELS, o0 = blockIdx.y * OUT;
    int oh = h - 2, ow = wide - 2, plane = oh * ow, depth = c * 9;
    // This thread always gathers for the same pixel.
    int mine = p0 + threadIdx.x % PIXELS, lines = threadIdx.x / PIXELS;
    bool real = mine < pixels;
    int rest = mine % plane;
    const float* corner = x + (real ? (long long)(mine / plane) * c * h * wide + rest / ow * wide + rest % ow : 0);
    float acc[8][4] = {};
    for (int k0 = 0; k0 < depth; k0 += DEEP) {
        #pragma unroll
        for (int k = lines; k < DEEP; k += 2) {
            int r = k0 + k;
            xs[k][threadIdx.x % PIXELS] = real && r < depth ? corner[r / 9 * h * wide + r / 3 % 3 * wide + r % 3] : 0.0f;
        }
        for (int i = threadIdx.x; i < DEEP * OUT; i += 256) {
            int k = i % DEEP, q = i / DEEP;
            ws[k][q] = k0 + k < depth && o0 + q < o ? w[(o0 + q) * depth + k0 + k] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < DEEP; ++k) {
            float4 a = *(const float4*)&ws[k][ty * 8], b = *(const float4*)&ws[k][ty * 8 + 4], v = *(const float4*)&xs[k][tx * 4];
            float f[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, u[4] = {v.x, v.y, v.z, v.w};
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] += f[i] * u[j];
        }
        __syncthreads();
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        int p = p0 + tx * 4 + j;
        if (p >= pixels) continue;
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            int q = o0 + ty * 8 + i;
            if (q < o) y[((long long)(p / plane) * o + q) * plane + p % plane] = fmaxf(acc[i][j] + conv_bias[q], 0.0f) + bias[q];
        }
    }
}
""")


def run(x, weight, conv_bias, bias):
    n, c, h, w = x.shape
    o = weight.shape[0]
    y = torch.empty((n, o, h - 2, w - 2), device=x.device, dtype=torch.float32)
    pixels = n * (h - 2) * (w - 2)
    args = (x, weight, conv_bias, bias, y, c, h, w, o, pixels)
    module.launch("product", grid=((pixels + 127) // 128, (o + 63) // 64), block=256, args=args)
    return y
