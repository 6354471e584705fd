"""Float32 register tiles without tensor cores, then three small kernels: row maxima, row sums, quotients."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define T 128
#define D 16
#define LD 132
__device__ void stage(float (*to)[LD], const __nv_bfloat16* from, int first, int rows, int k, int k0) {
    int r = threadIdx.x % 128, q = threadIdx.x / 128 * 8;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (first + r < rows && k0 + q < k) v = *(const uint4*)(from + (long long)(first + r) * k + k0 + q);
    unsigned words[4] = {v.x, v.y, v.z, v.w};
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[q + 2 * i][r] = __uint_as_float(words[i] << 16);
        to[q + 2 * i + 1][r] = __uint_as_float(words[i] & 0xffff0000u);
    }
}
extern "C" __global__ void __launch_bounds__(256) gelu_float(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w, const __nv_bfloat16* __restrict__ bias, float* __restrict__ z, int m, int n, int k) {
    __shared__ __align__(16) float xs[2][D][LD];
    __shared__ __align__(16) float ws[D][LD];
    int tx = threadIdx.x % 16 * 4, ty = threadIdx.x / 16 * 4, turn = 0;
    int m0 = blockIdx.x * T, n0 = blockIdx.y * T;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < k; k0 += D, turn ^= 1) {
        stage(xs[turn], x, m0, m, k, k0);
        stage(ws, w, n0, n, k, k0);
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < D; ++q) {
            float4 u0 = *(const float4*)&xs[turn][q][ty], u1 = *(const float4*)&xs[turn][q][ty + 64];
            float4 v0 = *(const float4*)&ws[q][tx], v1 = *(const float4*)&ws[q][tx + 64];
            float u[8] = {u0.x, u0.y, u0.z, u0.w, u1.x, u1.y, u1.z, u1.w};
            float v[8] = {v0.x, v0.y, v0.z, v0.w, v1.x, v1.y, v1.z, v1.w};
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(u[i], v[j], acc[i][j]);
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            int row = m0 + ty + i % 4 + i / 4 * 64, col = n0 + tx + j % 4 + j / 4 * 64;
            if (row >= m || col >= n) continue;
            float v = acc[i][j] + __bfloat162float(bias[col]);
            z[(long long)row * n + col] = v * normcdff(v);
        }
}
// A warp per row for each of the two reductions.
extern "C" __global__ void row_tops(const float* z, float* tops, int m, int n) {
    int row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= m) return;
    float top = -1e30f;
    for (int i = threadIdx.x % 32; i < n; i += 32) top = fmaxf(top, z[(long long)row * n + i]);
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    if (threadIdx.x % 32 == 0) tops[row] = top;
}
extern "C" __global__ void row_sums(const float* z, const float* tops, float* sums, int m, int n) {
    int row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= m) return;
    float s = 0.0f, top = tops[row];
    for (int i = threadIdx.x % 32; i < n; i += 32) s += expf(z[(long long)row * n + i] - top);
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (threadIdx.x % 32 == 0) sums[row] = s;
}
extern "C" __global__ void quotients(const float* z, const float* tops, const float* sums, __nv_bfloat16* y, int n) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col < n) y[(long long)row * n + col] = __float2bfloat16(expf(z[(long long)row * n + col] - tops[row]) / sums[row]);
}
""")


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    z = torch.empty((m, n), device=x.device, dtype=torch.float32)
    tops = torch.empty((m,), device=x.device, dtype=torch.float32)
    sums = torch.empty((m,), device=x.device, dtype=torch.float32)
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = ((m + 127) // 128, (n + 127) // 128)
    module.launch("gelu_float", grid=grid, block=256, args=(x, weight, bias, z, m, n, k))
    module.launch("row_tops", grid=(m + 3) // 4, block=128, args=(z, tops, m, n))
    module.launch("row_sums", grid=(m + 3) // 4, block=128, args=(z, tops, sums, m, n))
    module.launch("quotients", grid=((n + 255) // 256, m), block=256, args=(z, tops, sums, y, n))
    return y
