"""A warp's 32 columns are one group, so four lanes can normalise a row of the tile in registers."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define BM 128
#define BN 128
#define BK 64
#define LDA (BK + 8)
#define LDB (BK + 8)
#define STAGES 3
#define STAGE (BM * LDA + BN * LDB)
#define THREADS 256
typedef __nv_bfloat16 bf16;
__device__ __forceinline__ void cp16(void* to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
__device__ __forceinline__ void cp_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> __device__ __forceinline__ void cp_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}
__device__ __forceinline__ void ldsm4(unsigned* r, const void* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(p)) : "memory");
}
__device__ __forceinline__ void mma_bf16(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
extern "C" __global__ void __launch_bounds__(THREADS) product(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w, const __nv_bfloat16* __restrict__ bias, const __nv_bfloat16* __restrict__ added, const __nv_bfloat16* __restrict__ gamma, const __nv_bfloat16* __restrict__ beta, __nv_bfloat16* __restrict__ y, int m, int n, int k) {
    extern __shared__ __align__(16) bf16 ring[];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    int wr = warp / (BN / 32) * 64, wc = warp % (BN / 32) * 32;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int begin = 0, end = k;
    float acc[4][4][4] = {};
    auto fetch = [&](bf16* as, int at) {
        bf16* bs = as + BM * LDA;
        #pragma unroll
        for (int e = tid; e < BM * BK / 8; e += THREADS) {
            int r = e / (BK / 8), q = e % (BK / 8) * 8;
            bool inside = row0 + r < m && at + q < end;
            cp16(as + r * LDA + q, inside ? x + (long long)(row0 + r) * k + at + q : x, inside);
        }
        #pragma unroll
        for (int e = tid; e < BN * BK / 8; e += THREADS) {
            int r = e / (BK / 8), q = e % (BK / 8) * 8;
            bool inside = col0 + r < n && at + q < end;
            cp16(bs + r * LDB + q, inside ? w + (long long)(col0 + r) * k + at + q : w, inside);
        }
    };
    int steps = (end - begin + BK - 1) / BK;
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < steps) fetch(ring + s * STAGE, begin + s * BK);
        cp_commit();
    }
    for (int s = 0; s < steps; ++s) {
        cp_wait<STAGES - 2>();
        __syncthreads();
        int ahead = s + STAGES - 1;
        if (ahead < steps) fetch(ring + ahead % STAGES * STAGE, begin + ahead * BK);
        cp_commit();
        const bf16* as = ring + s % STAGES * STAGE;
        const bf16* bs = as + BM * LDA;
        #pragma unroll
        for (int q = 0; q < BK; q += 16) {
            unsigned x[4][4], y[2][4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) ldsm4(x[i], as + (wr + 16 * i + lane % 16) * LDA + q + lane / 16 * 8);
            #pragma unroll
            for (int j = 0; j < 2; ++j) ldsm4(y[j], bs + (wc + 16 * j + lane % 8 + lane / 16 * 8) * LDB + q + lane / 8 % 2 * 8);
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) mma_bf16(acc[i][j], x[i], y[j / 2] + j % 2 * 2);
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            // The four lanes of a quad hold one row of the warp's 32 columns, which are one group.
            int row = row0 + wr + 16 * i + lane / 4 + 8 * h, first = col0 + wc + lane % 4 * 2;
            bool inside = col0 + wc < n;
            float v[8], sum = 0.0f, squares = 0.0f;
            #pragma unroll
            for (int e = 0; e < 8; ++e) {
                int col = first + e / 2 * 8 + e % 2;
                float u = acc[i][e / 2][2 * h + e % 2] + (inside ? __bfloat162float(bias[col]) : 0.0f);
                v[e] = u / (1.0f + __expf(-u)) + (inside ? __bfloat162float(added[col]) : 0.0f);
                sum += v[e];
            }
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            float mean = sum * (1.0f / 32.0f);
            #pragma unroll
            for (int e = 0; e < 8; ++e) { v[e] -= mean; squares += v[e] * v[e]; }
            squares += __shfl_xor_sync(0xffffffffu, squares, 1);
            squares += __shfl_xor_sync(0xffffffffu, squares, 2);
            float scale = rsqrtf(squares * (1.0f / 32.0f) + 1e-5f);
            if (row < m && inside)
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    int col = first + 8 * j;
                    float p = v[2 * j] * scale * __bfloat162float(gamma[col]) + __bfloat162float(beta[col]);
                    float q = v[2 * j + 1] * scale * __bfloat162float(gamma[col + 1]) + __bfloat162float(beta[col + 1]);
                    *(__nv_bfloat162*)(y + (long long)row * n + col) = __floats2bfloat162_rn(p, q);
                }
        }
}
""")


def run(x, weight, bias, added, gamma, beta):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = ((n + 127) // 128, (m + 127) // 128)
    args = (x, weight, bias, added, gamma, beta, y, m, n, k)
    module.launch("product", grid=grid, block=256, args=args, shared_bytes=110592)
    return y
