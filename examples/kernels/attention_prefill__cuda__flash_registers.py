"""Everything of a warp's sixteen queries stays in registers; keys and values stream through two shared buffers."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
#define COPY_BYTES 16
#define COPY_BYTES_IS_16 1
#define KEYS 64
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    int bytes = inside ? COPY_BYTES : 0;
#if COPY_BYTES_IS_16
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
#elif COPY_BYTES_IS_8
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
#endif
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
__device__ __forceinline__ void load_matrix_x4(unsigned* r, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_matrix_x4_transposed(unsigned* r, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_matrix_x2(unsigned* r, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_matrix_x2_transposed(unsigned* r, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}
__device__ __forceinline__ void multiply(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ unsigned pack(float a, float b) {
    unsigned x = __float_as_uint(a), y = __float_as_uint(b);
    x = (x + 0x7fffu + (x >> 16 & 1u)) >> 16;
    y = (y + 0x7fffu + (y >> 16 & 1u)) & 0xffff0000u;
    return x | y;
}
template <int D>
__device__ __forceinline__ void fetch(__nv_bfloat16* to, const __nv_bfloat16* from, int first, int length) {
    for (int i = threadIdx.x; i < KEYS * (D / 8); i += 128) {
        int row = i / (D / 8), col = i % (D / 8) * 8;
        bool inside = first + row < length;
        copy_async(to + row * (D + 8) + col, from + (long long)(inside ? first + row : 0) * D + col, inside);
    }
}
template <int D>
__device__ __forceinline__ void attend(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* o, float scale, int length, __nv_bfloat16* buffers) {
    constexpr int TILE = KEYS * (D + 8);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    long long head = (long long)blockIdx.y * length * D;
    int row = blockIdx.x * 64 + warp * 16 + g;
    const unsigned* top_row = (const unsigned*)(q + head + (long long)min(row, length - 1) * D);
    const unsigned* low_row = (const unsigned*)(q + head + (long long)min(row + 8, length - 1) * D);
    unsigned query[D / 16][4];
    #pragma unroll
    for (int i = 0; i < D / 16; ++i) {
        query[i][0] = top_row[i * 8 + t];
        query[i][1] = low_row[i * 8 + t];
        query[i][2] = top_row[i * 8 + t + 4];
        query[i][3] = low_row[i * 8 + t + 4];
    }
    float acc[D / 8][4];
    #pragma unroll
    for (int i = 0; i < D / 8; ++i)
        for (int e = 0; e < 4; ++e) acc[i][e] = 0.0f;
    float top[2] = {-1.0e30f, -1.0e30f}, sum[2] = {0.0f, 0.0f};
    fetch<D>(buffers, k + head, 0, length);
    fetch<D>(buffers + TILE, v + head, 0, length);
    copy_commit();
    int stage = 0;
    for (int first = 0; first < length; first += KEYS) {
        copy_wait<0>();
        __syncthreads();
        const __nv_bfloat16* keys = buffers + stage * 2 * TILE;
        const __nv_bfloat16* values = keys + TILE;
        stage ^= 1;
        if (first + KEYS < length) {
            fetch<D>(buffers + stage * 2 * TILE, k + head, first + KEYS, length);
            fetch<D>(buffers + stage * 2 * TILE + TILE, v + head, first + KEYS, length);
        }
        copy_commit();
        float s[KEYS / 8][4];
        #pragma unroll
        for (int n = 0; n < KEYS / 8; ++n) {
            for (int e = 0; e < 4; ++e) s[n][e] = 0.0f;
            #pragma unroll
            for (int i = 0; i < D / 32; ++i) {
                unsigned b[4];
                load_matrix_x4(b, keys + (n * 8 + lane % 8) * (D + 8) + i * 32 + lane / 8 * 8);
                multiply(s[n], query[2 * i], b);
                multiply(s[n], query[2 * i + 1], b + 2);
            }
        }
        float larger[2] = {top[0], top[1]};
        #pragma unroll
        for (int n = 0; n < KEYS / 8; ++n)
            for (int e = 0; e < 4; ++e) {
                s[n][e] = first + n * 8 + 2 * t + e % 2 < length ? s[n][e] * scale : -1.0e30f;
                larger[e / 2] = fmaxf(larger[e / 2], s[n][e]);
            }
        float keep[2];
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            larger[r] = fmaxf(larger[r], __shfl_xor_sync(0xffffffffu, larger[r], 1));
            larger[r] = fmaxf(larger[r], __shfl_xor_sync(0xffffffffu, larger[r], 2));
            keep[r] = exp2f(top[r] - larger[r]);
            top[r] = larger[r];
            sum[r] *= keep[r];
        }
        #pragma unroll
        for (int n = 0; n < KEYS / 8; ++n)
            for (int e = 0; e < 4; ++e) {
                s[n][e] = exp2f(s[n][e] - top[e / 2]);
                sum[e / 2] += s[n][e];
            }
        #pragma unroll
        for (int i = 0; i < D / 8; ++i)
            for (int e = 0; e < 4; ++e) acc[i][e] *= keep[e / 2];
        // The sums of two products lie in the lanes where the next product wants its left operand.
        #pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
            unsigned a[4] = {pack(s[2 * j][0], s[2 * j][1]), pack(s[2 * j][2], s[2 * j][3]), pack(s[2 * j + 1][0], s[2 * j + 1][1]), pack(s[2 * j + 1][2], s[2 * j + 1][3])};
            #pragma unroll
            for (int i = 0; i < D / 16; ++i) {
                unsigned b[4];
                load_matrix_x4_transposed(b, values + (j * 16 + lane / 8 % 2 * 8 + lane % 8) * (D + 8) + i * 16 + lane / 16 * 8);
                multiply(acc[2 * i], a, b);
                multiply(acc[2 * i + 1], a, b + 2);
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
        if (row + 8 * r >= length) continue;
        unsigned* out = (unsigned*)(o + head + (long long)(row + 8 * r) * D);
        #pragma unroll
        for (int i = 0; i < D / 8; ++i) out[i * 4 + t] = pack(acc[i][2 * r] / sum[r], acc[i][2 * r + 1] / sum[r]);
    }
}
extern "C" __global__ void __launch_bounds__(128) attend_64(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ o, float scale, int length) {
    extern __shared__ __align__(128) __nv_bfloat16 buffers[];
    attend<64>(q, k, v, o, scale, length, buffers);
}
extern "C" __global__ void __launch_bounds__(128) attend_128(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ o, float scale, int length) {
    extern __shared__ __align__(128) __nv_bfloat16 buffers[];
    attend<128>(q, k, v, o, scale, length, buffers);
}
""")


def run(q, k, v):
    b, h, length, d = q.shape
    assert d in (64, 128)
    o = torch.empty_like(q)
    args = (q, k, v, o, 1.4426950408889634 / math.sqrt(d), length)
    grid = ((length + 63) // 64, b * h)
    module.launch("attend_64" if d == 64 else "attend_128", grid, 128, args=args, shared_bytes=8 * 64 * (d + 8))
    return o
