"""A warp holds one column of the state, two rows per lane; tokens follow one another with a shuffle reduction each."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define D 64
extern "C" __global__ void columns(const float* __restrict__ k, const float* __restrict__ w, const float* __restrict__ u, const float* __restrict__ g, float* __restrict__ h, float* __restrict__ fresh, int length, int count) {
    int lane = threadIdx.x % 32, column = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
    int head = blockIdx.x % count, chunks = length / D;
    long long batch = blockIdx.x / count;
    float low = 0.0f, high = 0.0f;
    for (int n = 0; n < chunks; ++n) {
        long long first = (batch * length + n * D) * count + head;
        float* out = h + ((batch * chunks + n) * count + head) * D * D + column;
        out[lane * D] = low;
        out[(lane + 32) * D] = high;
        float last = g[first + (long long)(D - 1) * count], keep = expf(last);
        float next_low = low * keep, next_high = high * keep;
        for (int half = 0; half < D; half += 32) {
            long long mine = first + (long long)(half + lane) * count;
            // Lane t fetches what belongs to token t and keeps its result.
            float held = u[mine * D + column], decay = expf(last - g[mine]), made = 0.0f;
            #pragma unroll 4
            for (int t = 0; t < 32; ++t) {
                long long row = (first + (long long)(half + t) * count) * D;
                float dot = w[row + lane] * low + w[row + lane + 32] * high;
                for (int s = 16; s > 0; s /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, s);
                float value = __shfl_sync(0xffffffffu, held, t) - dot;
                float weighted = value * __shfl_sync(0xffffffffu, decay, t);
                if (lane == t) made = value;
                next_low += k[row + lane] * weighted;
                next_high += k[row + lane + 32] * weighted;
            }
            fresh[mine * D + column] = made;
        }
        low = next_low;
        high = next_high;
    }
}
""")


def run(k, w, u, g):
    b, t, h, d = k.shape
    assert d == 64
    states = torch.empty((b, t // 64, h, d, d), device=k.device, dtype=torch.float32)
    fresh = torch.empty_like(u)
    module.launch("columns", grid=(b * h, 8), block=256, args=(k, w, u, g, states, fresh, t, h))
    return states, fresh
