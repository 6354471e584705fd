"""Keys and values lie side by side in shared memory; a thread forms four rows by eight columns of the joint product."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define D 64
#define LINE 68
#define WIDE 132
extern "C" __global__ void __launch_bounds__(256) joint(const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ beta, const float* __restrict__ a, const float* __restrict__ g, float* __restrict__ w, float* __restrict__ u, int count) {
    extern __shared__ __align__(16) float tiles[];
    float* as = tiles;
    float* kv = as + D * LINE;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    long long slot = blockIdx.x, first = slot / count * D * count + slot % count;
    for (int i = threadIdx.x; i < D * D; i += 256) {
        int t = i / D, d = i % D;
        long long row = first + (long long)t * count, at = row * D + d;
        float factor = beta[row];
        as[d * LINE + t] = a[at];
        kv[t * WIDE + d] = k[at] * factor * expf(g[row]);
        kv[t * WIDE + D + d] = v[at] * factor;
    }
    __syncthreads();
    float wa[4][4] = {}, ua[4][4] = {};
    #pragma unroll 4
    for (int j = 0; j < ty * 4 + 4; ++j) {
        float4 p = *(const float4*)(as + j * LINE + ty * 4);
        float4 x = *(const float4*)(kv + j * WIDE + tx * 4), y = *(const float4*)(kv + j * WIDE + D + tx * 4);
        float r[4] = {p.x, p.y, p.z, p.w}, xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
        for (int i = 0; i < 4; ++i) for (int c = 0; c < 4; ++c) {
            wa[i][c] += r[i] * xs[c];
            ua[i][c] += r[i] * ys[c];
        }
    }
    for (int i = 0; i < 4; ++i) {
        long long at = (first + (long long)(ty * 4 + i) * count) * D + tx * 4;
        *(float4*)(w + at) = make_float4(wa[i][0], wa[i][1], wa[i][2], wa[i][3]);
        *(float4*)(u + at) = make_float4(ua[i][0], ua[i][1], ua[i][2], ua[i][3]);
    }
}
""")


def run(k, v, beta, a, g):
    b, t, h, d = k.shape
    assert d == 64
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    args = (k, v, beta, a, g, w, u, h)
    module.launch("joint", grid=b * (t // 64) * h, block=256, args=args, shared_bytes=4 * 64 * (68 + 132))
    return w, u
