"""Tensor-core tiles fed by asynchronous copies leave a maximum and a sum per row, which a second kernel combines."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_fp16.h>
#define BM 128
#define BN 128
#define BK 32
#define LD 40
#define STAGES 4
__device__ __forceinline__ void cp_async16(void* to, const void* from, bool inside) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void cp_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
__device__ __forceinline__ void ldmatrix_x4(unsigned* r, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void mma_f16(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void fetch(__half* to, const __half* from, int first, int rows, int k, int k0) {
    for (int e = threadIdx.x; e < 128 * (BK / 8); e += 256) {
        int r = e / (BK / 8), q = e % (BK / 8) * 8;
        bool inside = first + r < rows && k0 + q < k;
        cp_async16(to + r * LD + q, inside ? from + (long long)(first + r) * k + k0 + q : from, inside);
    }
}

// partial[row][block of columns] is the maximum and the sum of exponentials below it.
extern "C" __global__ void __launch_bounds__(256) logit_tiles(const __half* __restrict__ x, const __half* __restrict__ w, const __half* __restrict__ bias, float2* __restrict__ partial, int m, int n, int k) {
    extern __shared__ __align__(16) __half tiles[];
    __shared__ float best[4][BM];
    __shared__ float mass[4][BM];
    __half* xs = tiles;
    __half* ws = tiles + STAGES * BM * LD;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / 4 * 64, wc = warp % 4, wn = wc * 32;
    int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, steps = (k + BK - 1) / BK;
    float acc[4][4][4] = {};
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < steps) {
            fetch(xs + s * BM * LD, x, m0, m, k, s * BK);
            fetch(ws + s * BN * LD, w, n0, n, k, s * BK);
        }
        cp_commit();
    }
    for (int step = 0; step < steps; ++step) {
        cp_wait<STAGES - 2>();
        __syncthreads();
        int next = step + STAGES - 1;
        if (next < steps) {
            fetch(xs + next % STAGES * BM * LD, x, m0, m, k, next * BK);
            fetch(ws + next % STAGES * BN * LD, w, n0, n, k, next * BK);
        }
        cp_commit();
        const __half* xt = xs + step % STAGES * BM * LD;
        const __half* wt = ws + step % STAGES * BN * LD;
        #pragma unroll
        for (int q = 0; q < BK; q += 16) {
            unsigned a[4][4], b[2][4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) ldmatrix_x4(a[i], xt + (wm + 16 * i + lane % 16) * LD + q + lane / 16 * 8);
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                ldmatrix_x4(b[j], wt + (wn + 16 * j + lane / 16 * 8 + lane % 8) * LD + q + lane / 8 % 2 * 8);
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) mma_f16(acc[i][j], a[i], b[j / 2] + j % 2 * 2);
        }
    }
    for (int j = 0; j < 4; ++j)
        for (int e = 0; e < 4; ++e) {
            int col = n0 + wn + 8 * j + lane % 4 * 2 + e % 2;
            float add = col < n ? __half2float(bias[col]) : -1e30f;
            for (int i = 0; i < 4; ++i) acc[i][j][e] += add;
        }
    for (int i = 0; i < 4; ++i)
        for (int h = 0; h < 2; ++h) {
            float top = -1e30f;
            for (int j = 0; j < 4; ++j) top = fmaxf(top, fmaxf(acc[i][j][2 * h], acc[i][j][2 * h + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            if (lane % 4 == 0) best[wc][wm + 16 * i + 8 * h + lane / 4] = top;
        }
    __syncthreads();
    for (int i = 0; i < 4; ++i)
        for (int h = 0; h < 2; ++h) {
            int row = wm + 16 * i + 8 * h + lane / 4;
            float top = fmaxf(fmaxf(best[0][row], best[1][row]), fmaxf(best[2][row], best[3][row])), s = 0.0f;
            for (int j = 0; j < 4; ++j) s += __expf(acc[i][j][2 * h] - top) + __expf(acc[i][j][2 * h + 1] - top);
            s += __shfl_xor_sync(0xffffffffu, s, 1);
            s += __shfl_xor_sync(0xffffffffu, s, 2);
            if (lane % 4 == 0) mass[wc][row] = s;
        }
    __syncthreads();
    int row = threadIdx.x;
    if (row < BM && m0 + row < m) {
        float top = fmaxf(fmaxf(best[0][row], best[1][row]), fmaxf(best[2][row], best[3][row]));
        float s = (mass[0][row] + mass[1][row]) + (mass[2][row] + mass[3][row]);
        partial[(long long)(m0 + row) * gridDim.x + blockIdx.x] = make_float2(top, s);
    }
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); }
// A warp per row.
extern "C" __global__ void combine(const float2* partial, __half* y, int m, int parts) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    const float2* mine = partial + (long long)row * parts;
    float top = -1e30f, s = 0.0f;
    for (int p = lane; p < parts; p += 32) top = fmaxf(top, mine[p].x);
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    for (int p = lane; p < parts; p += 32) s += mine[p].y * expf(mine[p].x - top);
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (lane == 0) {
        float v = top + logf(s);
        v = v > 0.0f ? v : 0.01f * v;
        v = v > 0.0f ? v : 0.01f * v;
        y[row] = __float2half(gelu(gelu(v)));
    }
}
""")


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    parts = (n + 127) // 128
    partial = torch.empty((m, parts, 2), device=x.device, dtype=torch.float32)
    y = torch.empty((m, 1), device=x.device, dtype=torch.float16)
    grid = (parts, (m + 127) // 128)
    shared = 4 * 256 * 40 * 2
    module.launch("logit_tiles", grid=grid, block=256, args=(x, weight, bias, partial, m, n, k), shared_bytes=shared)
    module.launch("combine", grid=(m + 3) // 4, block=128, args=(partial, y, m, parts))
    return y
