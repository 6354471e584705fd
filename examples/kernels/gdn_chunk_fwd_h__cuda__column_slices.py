"""Eight columns of a head's state per block, so that few heads still fill the device."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define D 64
extern "C" __global__ void __launch_bounds__(128) slices(const float* __restrict__ k, const float* __restrict__ w, const float* __restrict__ u, const float* __restrict__ g, float* __restrict__ h, float* __restrict__ fresh, int length, int count) {
    __shared__ float ws[D][D + 1];
    __shared__ float ks[D][D];
    __shared__ __align__(16) float state[D][8];
    __shared__ __align__(16) float vs[D][8];
    int line = threadIdx.x % D, part = threadIdx.x / D * 4, column = blockIdx.y * 8 + part;
    int head = blockIdx.x % count, chunks = length / D;
    long long batch = blockIdx.x / count;
    float4 own = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int n = 0; n < chunks; ++n) {
        long long first = (batch * length + n * D) * count + head;
        *(float4*)&state[line][part] = own;
        *(float4*)(h + (((batch * chunks + n) * count + head) * D + line) * D + column) = own;
        for (int i = threadIdx.x; i < D * D; i += 128) {
            long long at = (first + (long long)(i / D) * count) * D + i % D;
            ws[i / D][i % D] = w[at];
            ks[i / D][i % D] = k[at];
        }
        __syncthreads();
        long long row = first + (long long)line * count;
        float4 v = *(const float4*)(u + row * D + column);
        #pragma unroll 8
        for (int d = 0; d < D; ++d) {
            float a = ws[line][d];
            float4 s = *(const float4*)&state[d][part];
            v.x -= a * s.x; v.y -= a * s.y; v.z -= a * s.z; v.w -= a * s.w;
        }
        *(float4*)(fresh + row * D + column) = v;
        float last = g[first + (long long)(D - 1) * count], decay = expf(last - g[row]), keep = expf(last);
        *(float4*)&vs[line][part] = make_float4(v.x * decay, v.y * decay, v.z * decay, v.w * decay);
        __syncthreads();
        own.x *= keep; own.y *= keep; own.z *= keep; own.w *= keep;
        #pragma unroll 8
        for (int t = 0; t < D; ++t) {
            float a = ks[t][line];
            float4 s = *(const float4*)&vs[t][part];
            own.x += a * s.x; own.y += a * s.y; own.z += a * s.z; own.w += a * s.w;
        }
        __syncthreads();
    }
}
""")


def run(k, w, u, g):
    b, t, h, d = k.shape
    assert d == 64
    states = torch.empty((b, t // 64, h, d, d), device=k.device, dtype=torch.float32)
    fresh = torch.empty_like(u)
    module.launch("slices", grid=(b * h, 8), block=128, args=(k, w, u, g, states, fresh, t, h))
    return states, fresh
