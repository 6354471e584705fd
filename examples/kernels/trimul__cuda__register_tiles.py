"""Float32 throughout: tiles of 64 by 64 with sixteen sums per thread, and channels outermost between the kernels."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define C 128
__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + __expf(-v)); }
extern "C" __global__ void normalise(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ out, int tokens, int d) {
    int lane = threadIdx.x % 32, t = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (t >= tokens) return;
    const float* p = x + (long long)t * d;
    float sum = 0.0f, squares = 0.0f;
    for (int i = lane; i < d; i += 32) sum += p[i];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
    float mean = sum / d;
    for (int i = lane; i < d; i += 32) squares += (p[i] - mean) * (p[i] - mean);
    for (int s = 16; s > 0; s /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, s);
    float scale = rsqrtf(squares / d + 1e-5f);
    for (int i = lane; i < d; i += 32) out[(long long)t * d + i] = (p[i] - mean) * scale * weight[i] + bias[i];
}
// Threads run along tokens, so that stores with channels outermost are coalesced.
extern "C" __global__ void project(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ gate_w, const float* __restrict__ mask, float* __restrict__ out, int tokens, int d, int area, int gated) {
    __shared__ float xs[16][65];
    __shared__ float ws[16][65];
    __shared__ float gs[16][65];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, t0 = blockIdx.x * 64, c0 = blockIdx.y * 64;
    float acc[4][4] = {}, gate[4][4] = {};
    for (int k0 = 0; k0 < d; k0 += 16) {
        for (int i = threadIdx.x; i < 1024; i += 256) {
            int k = i % 16, r = i / 16;
            bool inside = k0 + k < d;
            xs[k][r] = inside && t0 + r < tokens ? x[(long long)(t0 + r) * d + k0 + k] : 0.0f;
            ws[k][r] = inside ? w[(c0 + r) * d + k0 + k] : 0.0f;
            if (gated) gs[k][r] = inside ? gate_w[(c0 + r) * d + k0 + k] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 16; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) { a[i] = xs[k][tx + 16 * i]; b[i] = ws[k][ty + 16 * i]; }
            for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) acc[i][j] += a[i] * b[j];
            if (gated) {
                for (int i = 0; i < 4; ++i) b[i] = gs[k][ty + 16 * i];
                for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) gate[i][j] += a[i] * b[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        int t = t0 + tx + 16 * i;
        if (t >= tokens) continue;
        float keep = mask[t];
        for (int j = 0; j < 4; ++j) {
            int c = c0 + ty + 16 * j;
            float v = gated ? acc[i][j] * keep * sigmoid(gate[i][j]) : sigmoid(acc[i][j]);
            out[((long long)(t / area) * C + c) * area + t % area] = v;
        }
    }
}
extern "C" __global__ void triangle(const float* __restrict__ left, const float* __restrict__ right, float* __restrict__ out, int n) {
    __shared__ float as[16][65];
    __shared__ float bs[16][65];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, i0 = blockIdx.x * 64, j0 = blockIdx.y * 64;
    long long base = (long long)blockIdx.z * n * n;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 16) {
        for (int i = threadIdx.x; i < 1024; i += 256) {
            int k = i % 16, r = i / 16;
            as[k][r] = k0 + k < n && i0 + r < n ? left[base + (i0 + r) * n + k0 + k] : 0.0f;
            bs[k][r] = k0 + k < n && j0 + r < n ? right[base + (j0 + r) * n + k0 + k] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 16; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) { a[i] = as[k][ty + 16 * i]; b[i] = bs[k][tx + 16 * i]; }
            for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) {
        int r = i0 + ty + 16 * i, q = j0 + tx + 16 * j;
        if (r < n && q < n) out[base + r * n + q] = acc[i][j];
    }
}
extern "C" __global__ void finish(const float* __restrict__ product, const float* __restrict__ gate, const float* __restrict__ weight, const float* __restrict__ bias, const float* __restrict__ w, float* __restrict__ y, int tokens, int d, int area) {
    __shared__ float z[C][33];
    __shared__ float ws[32][C + 1];
    __shared__ float parts[8][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = blockIdx.x * 32 + lane;
    bool inside = t < tokens;
    long long at = inside ? (long long)(t / area) * C * area + t % area : 0;
    float sum = 0.0f;
    for (int c = warp; c < C; c += 8) {
        float v = inside ? product[at + (long long)c * area] : 0.0f;
        z[c][lane] = v;
        sum += v;
    }
    parts[warp][lane] = sum;
    __syncthreads();
    float mean = 0.0f;
    for (int i = 0; i < 8; ++i) mean += parts[i][lane] * (1.0f / C);
    __syncthreads();
    sum = 0.0f;
    for (int c = warp; c < C; c += 8) sum += (z[c][lane] - mean) * (z[c][lane] - mean);
    parts[warp][lane] = sum;
    __syncthreads();
    float variance = 0.0f;
    for (int i = 0; i < 8; ++i) variance += parts[i][lane] * (1.0f / C);
    float scale = rsqrtf(variance + 1e-5f);
    for (int c = warp; c < C; c += 8)
        z[c][lane] = ((z[c][lane] - mean) * scale * weight[c] + bias[c]) * (inside ? gate[at + (long long)c * area] : 0.0f);
    for (int d0 = 0; d0 < d; d0 += 32) {
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * C; i += 256) ws[i / C][i % C] = d0 + i / C < d ? w[(d0 + i / C) * C + i % C] : 0.0f;
        __syncthreads();
        float acc[4] = {};
        for (int c = 0; c < C; ++c) {
            float b = ws[lane][c];
            for (int q = 0; q < 4; ++q) acc[q] += z[c][warp * 4 + q] * b;
        }
        for (int q = 0; q < 4; ++q) {
            int row = blockIdx.x * 32 + warp * 4 + q;
            if (row < tokens && d0 + lane < d) y[(long long)row * d + d0 + lane] = acc[q];
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
    tokens, area = b * n * n, n * n
    normal = torch.empty_like(x)
    left = torch.empty((b, 128, n, n), device=x.device, dtype=torch.float32)
    right = torch.empty_like(left)
    gate = torch.empty_like(left)
    product = torch.empty_like(left)
    y = torch.empty_like(x)
    module.launch("normalise", grid=(tokens + 7) // 8, block=256, args=(x, norm_weight, norm_bias, normal, tokens, d))
    plan = ((left, left_weight, left_gate_weight, 1), (right, right_weight, right_gate_weight, 1))
    for out, w, g, gated in (*plan, (gate, out_gate_weight, out_gate_weight, 0)):
        args = (normal, w, g, mask, out, tokens, d, area, gated)
        module.launch("project", grid=((tokens + 63) // 64, 2), block=256, args=args)
    side = (n + 63) // 64
    module.launch("triangle", grid=(side, side, b * 128), block=256, args=(left, right, product, n))
    args = (product, gate, out_norm_weight, out_norm_bias, out_weight, y, tokens, d, area)
    module.launch("finish", grid=(tokens + 31) // 32, block=256, args=args)
    return y
