"""Every product runs on tensor cores in float16 with fragments loaded straight from global memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
#define C 128
__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + __expf(-v)); }
extern "C" __global__ void to_half(const float* __restrict__ x, __half* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2half(x[i]);
}
extern "C" __global__ void normalise(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias, __half* __restrict__ out, int tokens, int d) {
    int lane = threadIdx.x % 32, t = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (t >= tokens) return;
    const float* p = x + (long long)t * d;
    float sum = 0.0f, squares = 0.0f;
    for (int i = lane; i < d; i += 32) { sum += p[i]; squares += p[i] * p[i]; }
    for (int s = 16; s > 0; s /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, s);
        squares += __shfl_xor_sync(0xffffffffu, squares, s);
    }
    float mean = sum / d, scale = rsqrtf(fmaxf(squares / d - mean * mean, 0.0f) + 1e-5f);
    for (int i = lane; i < d; i += 32) out[(long long)t * d + i] = __float2half((p[i] - mean) * scale * weight[i] + bias[i]);
}
// Four warps, each sixteen tokens by 64 channels of values and of gates.
extern "C" __global__ void project(const __half* __restrict__ x, const __half* __restrict__ w, const __half* __restrict__ gate_w, const float* __restrict__ mask, __half* __restrict__ out, int d, int area, int gated) {
    __shared__ __align__(128) float values[64][72];
    __shared__ __align__(128) float gates[64][72];
    int warp = threadIdx.x / 32, t0 = blockIdx.x * 64, c0 = blockIdx.y * 64;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4], gate[4];
    for (int j = 0; j < 4; ++j) { wmma::fill_fragment(acc[j], 0.0f); wmma::fill_fragment(gate[j], 0.0f); }
    for (int k = 0; k < d; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
        wmma::load_matrix_sync(a, x + (long long)(t0 + warp * 16) * d + k, d);
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            wmma::load_matrix_sync(b, w + (c0 + j * 16) * d + k, d);
            wmma::mma_sync(acc[j], a, b, acc[j]);
            if (gated) {
                wmma::load_matrix_sync(b, gate_w + (c0 + j * 16) * d + k, d);
                wmma::mma_sync(gate[j], a, b, gate[j]);
            }
        }
    }
    for (int j = 0; j < 4; ++j) {
        wmma::store_matrix_sync(&values[warp * 16][j * 16], acc[j], 72, wmma::mem_row_major);
        wmma::store_matrix_sync(&gates[warp * 16][j * 16], gate[j], 72, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 64; i += 128) {
        int r = i % 64, c = i / 64, t = t0 + r;
        float v = gated ? values[r][c] * mask[t] * sigmoid(gates[r][c]) : sigmoid(values[r][c]);
        out[((long long)(t / area) * C + c0 + c) * area + t % area] = __float2half(v);
    }
}
extern "C" __global__ void triangle(const __half* __restrict__ left, const __half* __restrict__ right, float* __restrict__ out, int n) {
    int warp = threadIdx.x / 32, i0 = blockIdx.x * 64 + warp * 16, j0 = blockIdx.y * 64;
    if (i0 >= n) return;
    long long base = (long long)blockIdx.z * n * n;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
    for (int j = 0; j < 4; ++j) wmma::fill_fragment(acc[j], 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
        wmma::load_matrix_sync(a, left + base + i0 * n + k, n);
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (j0 + j * 16 >= n) continue;
            wmma::load_matrix_sync(b, right + base + (j0 + j * 16) * n + k, n);
            wmma::mma_sync(acc[j], a, b, acc[j]);
        }
    }
    for (int j = 0; j < 4; ++j)
        if (j0 + j * 16 < n) wmma::store_matrix_sync(out + base + i0 * n + j0 + j * 16, acc[j], n, wmma::mem_row_major);
}
extern "C" __global__ void finish(const float* __restrict__ product, const __half* __restrict__ gate, const float* __restrict__ weight, const float* __restrict__ bias, const __half* __restrict__ w, float* __restrict__ y, int d, int area) {
    __shared__ float raw[C][33];
    __shared__ __align__(128) __half z[32][C + 8];
    __shared__ float sums[4][32];
    __shared__ float squares[4][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = blockIdx.x * 32 + lane;
    long long at = (long long)(t / area) * C * area + t % area;
    float sum = 0.0f, square = 0.0f;
    for (int c = warp; c < C; c += 4) {
        float v = product[at + (long long)c * area];
        raw[c][lane] = v;
        sum += v;
        square += v * v;
    }
    sums[warp][lane] = sum;
    squares[warp][lane] = square;
    __syncthreads();
    float mean = (sums[0][lane] + sums[1][lane] + sums[2][lane] + sums[3][lane]) * (1.0f / C);
    float raised = (squares[0][lane] + squares[1][lane] + squares[2][lane] + squares[3][lane]) * (1.0f / C);
    float scale = rsqrtf(fmaxf(raised - mean * mean, 0.0f) + 1e-5f);
    for (int c = warp; c < C; c += 4) {
        float v = (raw[c][lane] - mean) * scale * weight[c] + bias[c];
        z[lane][c] = __float2half(v * __half2float(gate[at + (long long)c * area]));
    }
    __syncthreads();
    for (int d0 = warp * 16; d0 < d; d0 += 64) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> top, low;
        wmma::fill_fragment(top, 0.0f);
        wmma::fill_fragment(low, 0.0f);
        #pragma unroll
        for (int k = 0; k < C; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
            wmma::load_matrix_sync(b, w + d0 * C + k, C);
            wmma::load_matrix_sync(a, &z[0][k], C + 8);
            wmma::mma_sync(top, a, b, top);
            wmma::load_matrix_sync(a, &z[16][k], C + 8);
            wmma::mma_sync(low, a, b, low);
        }
        float* to = y + (long long)blockIdx.x * 32 * d + d0;
        wmma::store_matrix_sync(to, top, d, wmma::mem_row_major);
        wmma::store_matrix_sync(to + 16 * d, low, d, wmma::mem_row_major);
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
    assert n % 16 == 0
    assert d % 16 == 0
    tokens, area, count = b * n * n, n * n, 128 * d
    half = {"device": x.device, "dtype": torch.float16}
    normal = torch.empty((tokens, d), **half)
    left = torch.empty((b, 128, n, n), **half)
    right = torch.empty_like(left)
    gate = torch.empty_like(left)
    product = torch.empty((b, 128, n, n), device=x.device, dtype=torch.float32)
    y = torch.empty_like(x)
    weights = []
    for w in (left_weight, left_gate_weight, right_weight, right_gate_weight, out_gate_weight, out_weight):
        small = torch.empty(w.shape, **half)
        module.launch("to_half", grid=(count + 255) // 256, block=256, args=(w, small, count))
        weights.append(small)
    module.launch("normalise", grid=(tokens + 7) // 8, block=256, args=(x, norm_weight, norm_bias, normal, tokens, d))
    grid = (tokens // 64, 2)
    module.launch("project", grid, 128, args=(normal, weights[0], weights[1], mask, left, d, area, 1))
    module.launch("project", grid, 128, args=(normal, weights[2], weights[3], mask, right, d, area, 1))
    module.launch("project", grid, 128, args=(normal, weights[4], weights[4], mask, gate, d, area, 0))
    side = (n + 63) // 64
    module.launch("triangle", grid=(side, side, b * 128), block=128, args=(left, right, product, n))
    args = (product, gate, out_norm_weight, out_norm_bias, weights[5], y, d, area)
    module.launch("finish", grid=tokens // 32, block=128, args=args)
    return y
