"""Threads are filters: each slides its three weights over sixteen positions, and results turn around in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define RUN 16
#define OUTS 64
#define POS 64
extern "C" __global__ void __launch_bounds__(256) conv_filters(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int c, int l, int o, int ol) {
    __shared__ float line[2][POS + 2];
    __shared__ float turned[OUTS][POS + 1];
    int filter = threadIdx.x % OUTS, part = threadIdx.x / OUTS;
    int p0 = blockIdx.x * POS, o0 = blockIdx.y * OUTS;
    const float* src = x + (size_t)blockIdx.z * c * l;
    const float* taps = weight + (size_t)min(o0 + filter, o - 1) * c * 3;
    float acc[RUN];
    #pragma unroll
    for (int i = 0; i < RUN; ++i) acc[i] = 0.0f;
    for (int ch = 0; ch < c; ++ch) {
        float* now = line[ch & 1];
        if (threadIdx.x < POS + 2) now[threadIdx.x] = p0 + threadIdx.x < l ? src[(size_t)ch * l + p0 + threadIdx.x] : 0.0f;
        float w0 = taps[ch * 3], w1 = taps[ch * 3 + 1], w2 = taps[ch * 3 + 2];
        __syncthreads();  // one barrier a channel: the other buffer is free by then
        const float* v = now + part * RUN;
        float a = v[0], b = v[1];
        #pragma unroll
        for (int i = 0; i < RUN; ++i) {
            float next = v[i + 2];
            acc[i] += w0 * a + w1 * b + w2 * next;
            a = b;
            b = next;
        }
    }
    #pragma unroll
    for (int i = 0; i < RUN; ++i) turned[filter][part * RUN + i] = acc[i];
    __syncthreads();
    for (int e = threadIdx.x; e < OUTS * POS; e += 256) {
        int q = e / POS, p = e % POS;
        if (o0 + q < o && p0 + p < ol) y[((size_t)blockIdx.z * o + o0 + q) * ol + p0 + p] = turned[q][p];
    }
}
""")


def run(x, weight):
    n, c, length = x.shape
    o = weight.shape[0]
    ol = length - 2
    y = torch.empty((n, o, ol), device=x.device, dtype=torch.float32)
    grid = ((ol + 63) // 64, (o + 63) // 64, n)
    module.launch("conv_filters", grid=grid, block=256, args=(x, weight, y, c, length, o, ol))
    return y
