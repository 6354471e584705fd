"""A thread is a channel: 80 sums in the projections, an eight by eight tile of pairs in the fused product."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define C 128
#define TOKENS 16
__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + __expf(-v)); }
__device__ __forceinline__ float warp_sum(float v) {
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(0xffffffffu, v, s);
    return v;
}
__device__ __forceinline__ float dot4(float4 a, float4 b, float sum) {
    return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
extern "C" __global__ void __launch_bounds__(128) project(const float* __restrict__ x, const float* __restrict__ nw, const float* __restrict__ nb, const float* __restrict__ lw, const float* __restrict__ lg, const float* __restrict__ rw, const float* __restrict__ rg, const float* __restrict__ og, const float* __restrict__ mask, float* __restrict__ left, float* __restrict__ right, float* __restrict__ gate, int tokens, int d) {
    extern __shared__ __align__(16) float rows[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * TOKENS, c = threadIdx.x;
    for (int r = warp; r < TOKENS; r += 4) {
        bool inside = first + r < tokens;
        const float* p = x + (long long)(first + r) * d;
        float sum = 0.0f, square = 0.0f;
        for (int i = lane; i < d; i += 32) { float v = inside ? p[i] : 0.0f; rows[r * d + i] = v; sum += v; }
        float mean = warp_sum(sum) / d;
        for (int i = lane; i < d; i += 32) { float v = rows[r * d + i] - mean; square += v * v; }
        float scale = rsqrtf(warp_sum(square) / d + 1e-5f);
        for (int i = lane; i < d; i += 32) rows[r * d + i] = (rows[r * d + i] - mean) * scale * nw[i] + nb[i];
    }
    __syncthreads();
    float a[TOKENS] = {}, ag[TOKENS] = {}, b[TOKENS] = {}, bg[TOKENS] = {}, o[TOKENS] = {};
    for (int k = 0; k < d; k += 4) {
        float4 w0 = *(const float4*)(lw + c * d + k), w1 = *(const float4*)(lg + c * d + k);
        float4 w2 = *(const float4*)(rw + c * d + k), w3 = *(const float4*)(rg + c * d + k);
        float4 w4 = *(const float4*)(og + c * d + k);
        #pragma unroll
        for (int r = 0; r < TOKENS; ++r) {
            float4 v = *(const float4*)(rows + r * d + k);
            a[r] = dot4(w0, v, a[r]);
            ag[r] = dot4(w1, v, ag[r]);
            b[r] = dot4(w2, v, b[r]);
            bg[r] = dot4(w3, v, bg[r]);
            o[r] = dot4(w4, v, o[r]);
        }
    }
    #pragma unroll
    for (int r = 0; r < TOKENS; ++r) {
        if (first + r >= tokens) continue;
        long long at = (long long)(first + r) * C + c;
        float keep = mask[first + r];
        left[at] = a[r] * keep * sigmoid(ag[r]);
        right[at] = b[r] * keep * sigmoid(bg[r]);
        gate[at] = sigmoid(o[r]);
    }
}
extern "C" __global__ void __launch_bounds__(128) triangle(const float* __restrict__ left, const float* __restrict__ right, const float* __restrict__ gate, const float* __restrict__ nw, const float* __restrict__ nb, const float* __restrict__ w, float* __restrict__ y, int n, int d) {
    __shared__ __align__(16) float z[64][C];
    int c = threadIdx.x, lane = c % 32, warp = c / 32, i0 = blockIdx.x * 8, j0 = blockIdx.y * 8;
    long long batch = (long long)blockIdx.z * n * n;
    float acc[8][8] = {};
    const float* a = left + (batch + (long long)i0 * n) * C + c;
    const float* b = right + (batch + (long long)j0 * n) * C + c;
    for (int k = 0; k < n; ++k) {
        float u[8], v[8];
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
            u[q] = i0 + q < n ? a[(q * n + k) * C] : 0.0f;
            v[q] = j0 + q < n ? b[(q * n + k) * C] : 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < 8; ++i)
            #pragma unroll
            for (int j = 0; j < 8; ++j) acc[i][j] += u[i] * v[j];
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) z[i * 8 + j][c] = acc[i][j];
    __syncthreads();
    for (int r = warp; r < 64; r += 4) {
        float v[4], sum = 0.0f, square = 0.0f;
        for (int q = 0; q < 4; ++q) { v[q] = z[r][lane + 32 * q]; sum += v[q]; }
        float mean = warp_sum(sum) * (1.0f / C);
        for (int q = 0; q < 4; ++q) square += (v[q] - mean) * (v[q] - mean);
        float scale = rsqrtf(warp_sum(square) * (1.0f / C) + 1e-5f);
        int i = i0 + r / 8, j = j0 + r % 8;
        bool inside = i < n && j < n;
        for (int q = 0; q < 4; ++q) {
            int e = lane + 32 * q;
            float open = inside ? gate[(batch + (long long)i * n + j) * C + e] : 0.0f;
            z[r][e] = ((v[q] - mean) * scale * nw[e] + nb[e]) * open;
        }
    }
    __syncthreads();
    for (int e = threadIdx.x; e < d; e += 128)
        for (int r0 = 0; r0 < 64; r0 += 16) {
            float out[16] = {};
            for (int k = 0; k < C; k += 4) {
                float4 weight = *(const float4*)(w + e * C + k);
                #pragma unroll
                for (int q = 0; q < 16; ++q) out[q] = dot4(weight, *(const float4*)&z[r0 + q][k], out[q]);
            }
            #pragma unroll
            for (int q = 0; q < 16; ++q) {
                int i = i0 + (r0 + q) / 8, j = j0 + (r0 + q) % 8;
                if (i < n && j < n) y[(batch + (long long)i * n + j) * d + e] = out[q];
            }
        }
}
""")


def run(
    x,
    mask,
    norm_weight,
    norm_bias,
    left_weight,
    right_weight,
    left_gate_weight,
    right_gate_weight,
    out_gate_weight,
    out_norm_weight,
    out_norm_bias,
    out_weight,
):
    b, n, _, d = x.shape
    tokens = b * n * n
    left = torch.empty((tokens, 128), device=x.device, dtype=torch.float32)
    right = torch.empty_like(left)
    gate = torch.empty_like(left)
    y = torch.empty_like(x)
    weights = (left_weight, left_gate_weight, right_weight, right_gate_weight, out_gate_weight)
    args = (x, norm_weight, norm_bias, *weights, mask, left, right, gate, tokens, d)
    module.launch("project", grid=(tokens + 15) // 16, block=128, args=args, shared_bytes=64 * d)
    side = (n + 7) // 8
    args = (left, right, gate, out_norm_weight, out_norm_bias, out_weight, y, n, d)
    module.launch("triangle", grid=(side, side, b), block=128, args=args)
    return y
