"""Pipelined tensor-core tiles write GELU values as halves and a maximum and sum per row; a second kernel normalises."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
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
__device__ __forceinline__ void mma_bf16(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ void fetch(__nv_bfloat16* to, const __nv_bfloat16* from, int first, int rows, int k, int k0) {
    for (int e = threadIdx.x; e < 128 * (BK / 8); e += 128) {
        int r = e / (BK / 8), q = e % (BK / 8) * 8;
        bool inside = first + r < rows && k0 + q < k;
        cp_async16(to + r * LD + q, inside ? from + (long long)(first + r) * k + k0 + q : from, inside);
    }
}
// Four warps, each 64 by 64 outputs. stats[row][half-block of 64 columns] is a maximum and a sum of exponentials.
extern "C" __global__ void __launch_bounds__(128) gelu_tiles(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w, const __nv_bfloat16* __restrict__ bias, __half* __restrict__ values, float2* __restrict__ stats, int m, int n, int k) {
    extern __shared__ __align__(16) __nv_bfloat16 tiles[];
    __nv_bfloat16* xs = tiles;
    __nv_bfloat16* ws = tiles + STAGES * BM * LD;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / 2 * 64, wn = warp % 2 * 64;
    int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, steps = (k + BK - 1) / BK;
    float acc[4][8][4] = {};
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
        const __nv_bfloat16* xt = xs + step % STAGES * BM * LD;
        const __nv_bfloat16* wt = ws + step % STAGES * BN * LD;
        #pragma unroll
        for (int q = 0; q < BK; q += 16) {
            unsigned a[4][4], b[4][4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) ldmatrix_x4(a[i], xt + (wm + 16 * i + lane % 16) * LD + q + lane / 16 * 8);
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                ldmatrix_x4(b[j], wt + (wn + 16 * j + lane / 16 * 8 + lane % 8) * LD + q + lane / 8 % 2 * 8);
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) mma_bf16(acc[i][j], a[i], b[j / 2] + j % 2 * 2);
        }
    }
    int stride = 2 * gridDim.x;
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            int row = m0 + wm + 16 * i + 8 * h + lane / 4;
            float top = -1e30f, s = 0.0f;
            #pragma unroll
            for (int j = 0; j < 8; ++j)
                #pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; ++e) {
                    int col = n0 + wn + 8 * j + lane % 4 * 2 + e % 2;
                    float v = -1e30f;
                    if (col < n) {
                        v = acc[i][j][e] + __bfloat162float(bias[col]);
                        v = 0.5f * v * (1.0f + erff(v * 0.70710678f));
                        if (row < m) values[(long long)row * n + col] = __float2half(v);
                    }
                    acc[i][j][e] = v;
                    top = fmaxf(top, v);
                }
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            // Columns outside give zero, except where a whole half-block is outside; the merge then scales it to zero.
            #pragma unroll
            for (int j = 0; j < 8; ++j) s += __expf(acc[i][j][2 * h] - top) + __expf(acc[i][j][2 * h + 1] - top);
            s += __shfl_xor_sync(0xffffffffu, s, 1);
            s += __shfl_xor_sync(0xffffffffu, s, 2);
            if (lane % 4 == 0 && row < m) stats[(long long)row * stride + 2 * blockIdx.x + warp % 2] = make_float2(top, s);
        }
}
extern "C" __global__ void normalise(const __half* __restrict__ values, const float2* __restrict__ stats, __nv_bfloat16* __restrict__ y, int n, int parts) {
    const float2* mine = stats + (long long)blockIdx.x * parts;
    int lane = threadIdx.x % 32;
    float top = -1e30f, s = 0.0f;
    for (int p = lane; p < parts; p += 32) top = fmaxf(top, mine[p].x);
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    for (int p = lane; p < parts; p += 32) s += mine[p].y * __expf(mine[p].x - top);
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    float scale = 1.0f / s;
    const __half2* from = (const __half2*)(values + (long long)blockIdx.x * n);
    __nv_bfloat162* to = (__nv_bfloat162*)(y + (long long)blockIdx.x * n);
    for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
        float2 v = __half22float2(from[i]);
        to[i] = __floats2bfloat162_rn(__expf(v.x - top) * scale, __expf(v.y - top) * scale);
    }
}
""")


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    blocks = (n + 127) // 128
    values = torch.empty((m, n), device=x.device, dtype=torch.float16)
    stats = torch.empty((m, 2 * blocks, 2), device=x.device, dtype=torch.float32)
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    args = (x, weight, bias, values, stats, m, n, k)
    shared = 4 * 256 * 40 * 2
    module.launch("gelu_tiles", grid=(blocks, (m + 127) // 128), block=128, args=args, shared_bytes=shared)
    module.launch("normalise", grid=m, block=256, args=(values, stats, y, n, 2 * blocks))
    return y
