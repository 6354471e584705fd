"""A block a channel scans time in parallel: four tokens a thread, shuffles within warps, shared memory between."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define THREADS 128
#define PER 4
#define WARPS (THREADS / 32)
// At most 32 states; the length is a multiple of four.
extern "C" __global__ void __launch_bounds__(THREADS) scan(const float* __restrict__ u, const float* __restrict__ delta, const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ c, const float* __restrict__ skip, float* __restrict__ y, int channels, int states, int length) {
    __shared__ float carry[32];
    __shared__ float w_decay[2][WARPS];
    __shared__ float w_drive[2][WARPS];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, ch = blockIdx.x;
    long long batch = blockIdx.y, row = (batch * channels + ch) * length;
    if (tid < 32) carry[tid] = 0.0f;
    float pass = skip[ch];
    for (int start = 0; start < length; start += THREADS * PER) {
        int t = start + tid * PER;
        bool ok = t < length;
        float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 u4 = ok ? *(const float4*)(u + row + t) : zero, d4 = ok ? *(const float4*)(delta + row + t) : zero;
        float v[PER] = {u4.x, u4.y, u4.z, u4.w}, d[PER] = {d4.x, d4.y, d4.z, d4.w}, out[PER];
        #pragma unroll
        for (int i = 0; i < PER; ++i) out[i] = pass * v[i];
        __syncthreads();
        for (int n = 0; n < states; ++n) {
            float rate = __ldg(a + (long long)ch * states + n);
            const long long at = (batch * states + n) * length + t;
            float4 b4 = ok ? *(const float4*)(b + at) : zero, c4 = ok ? *(const float4*)(c + at) : zero;
            float bs[PER] = {b4.x, b4.y, b4.z, b4.w}, cs[PER] = {c4.x, c4.y, c4.z, c4.w};
            float decay[PER], drive[PER];
            #pragma unroll
            for (int i = 0; i < PER; ++i) { decay[i] = __expf(d[i] * rate); drive[i] = d[i] * v[i] * bs[i]; }
            // Fold the thread's own tokens, then scan over lanes.
            #pragma unroll
            for (int i = 1; i < PER; ++i) { drive[i] += drive[i - 1] * decay[i]; decay[i] *= decay[i - 1]; }
            float p = decay[PER - 1], q = drive[PER - 1];
            #pragma unroll
            for (int s = 1; s < 32; s *= 2) {
                float left_p = __shfl_up_sync(0xffffffffu, p, s), left_q = __shfl_up_sync(0xffffffffu, q, s);
                if (lane >= s) { q += left_q * p; p *= left_p; }
            }
            int side = n & 1;
            if (lane == 31) { w_decay[side][warp] = p; w_drive[side][warp] = q; }
            __syncthreads();
            float before = carry[n];
            for (int w = 0; w < warp; ++w) before = before * w_decay[side][w] + w_drive[side][w];
            float last = p * before + q;
            float left_p = __shfl_up_sync(0xffffffffu, p, 1), left_q = __shfl_up_sync(0xffffffffu, q, 1);
            float h0 = lane > 0 ? left_p * before + left_q : before;
            #pragma unroll
            for (int i = 0; i < PER; ++i) out[i] += (decay[i] * h0 + drive[i]) * cs[i];
            // Everyone reads carry[n] before the barrier of the next state; only then may the end be kept.
            __syncthreads();
            if (tid == THREADS - 1) carry[n] = last;
        }
        if (ok) *(float4*)(y + row + t) = make_float4(out[0], out[1], out[2], out[3]);
    }
}
""")


def run(u, delta, a, b, c, skip):
    batch, channels, length = u.shape
    y = torch.empty_like(u)
    args = (u, delta, a, b, c, skip, y, channels, a.shape[1], length)
    module.launch("scan", grid=(channels, batch), block=128, args=args)
    return y
