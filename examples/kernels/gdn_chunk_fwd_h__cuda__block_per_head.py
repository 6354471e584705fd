"""One block per head, four by four numbers per thread; the state lives in registers and in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define D 64
#define LINE 68
extern "C" __global__ void __launch_bounds__(256) heads(const float* __restrict__ k, const float* __restrict__ w, const float* __restrict__ u, const float* __restrict__ g, float* __restrict__ h, float* __restrict__ fresh, int length, int count) {
    extern __shared__ __align__(16) float tiles[];
    float* state = tiles;
    float* ws = state + D * LINE;
    float* ks = ws + D * LINE;
    float* vs = ks + D * LINE;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, head = blockIdx.x % count, chunks = length / D;
    long long batch = blockIdx.x / count;
    float own[4][4] = {};
    for (int n = 0; n < chunks; ++n) {
        long long first = (batch * length + n * D) * count + head;
        float* out = h + ((batch * chunks + n) * count + head) * D * D;
        float last = g[first + (long long)(D - 1) * count];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            float4 line = make_float4(own[i][0], own[i][1], own[i][2], own[i][3]);
            *(float4*)(out + (ty * 4 + i) * D + tx * 4) = line;
            *(float4*)(state + (ty * 4 + i) * LINE + tx * 4) = line;
        }
        for (int i = threadIdx.x; i < D * D; i += 256) {
            int t = i / D, d = i % D;
            long long at = (first + (long long)t * count) * D + d;
            ws[d * LINE + t] = w[at];
            ks[t * LINE + d] = k[at];
        }
        __syncthreads();
        float v[4][4] = {};
        #pragma unroll 8
        for (int d = 0; d < D; ++d) {
            float4 a = *(const float4*)(ws + d * LINE + ty * 4), b = *(const float4*)(state + d * LINE + tx * 4);
            float x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
            for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) v[i][j] += x[i] * y[j];
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            long long row = first + (long long)(ty * 4 + i) * count;
            float4 held = *(const float4*)(u + row * D + tx * 4);
            float4 now = make_float4(held.x - v[i][0], held.y - v[i][1], held.z - v[i][2], held.w - v[i][3]);
            *(float4*)(fresh + row * D + tx * 4) = now;
            float decay = expf(last - g[row]);
            *(float4*)(vs + (ty * 4 + i) * LINE + tx * 4) = make_float4(now.x * decay, now.y * decay, now.z * decay, now.w * decay);
        }
        __syncthreads();
        float keep = expf(last);
        for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) own[i][j] *= keep;
        #pragma unroll 8
        for (int t = 0; t < D; ++t) {
            float4 a = *(const float4*)(ks + t * LINE + ty * 4), b = *(const float4*)(vs + t * LINE + tx * 4);
            float x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
            for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) own[i][j] += x[i] * y[j];
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
    args = (k, w, u, g, states, fresh, t, h)
    module.launch("heads", grid=b * h, block=256, args=args, shared_bytes=4 * 4 * 64 * 68)
    return states, fresh
