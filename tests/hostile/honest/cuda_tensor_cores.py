# honest: mma.sync on 8-bit integers, one warp for each 16 by 8 tile
# problem: int8_gemm
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_bf16.h>
__device__ __forceinline__ int four(const signed char* p, int row, int col, int rows, int k) {
    return row < rows && col < k ? *reinterpret_cast<const int*>(p + (long long)row * k + col) : 0;
}
extern "C" __global__ void gemm(const signed char* x, const signed char* w, const float* xs, const float* ws,
                                __nv_bfloat16* y, int m, int n, int k) {
    const int lane = threadIdx.x, group = lane / 4, quad = lane % 4;
    const int row = blockIdx.y * 16, col = blockIdx.x * 8;
    int c[4] = {0, 0, 0, 0};
    for (int start = 0; start < k; start += 32) {
        const int at = start + quad * 4;
        const int a0 = four(x, row + group, at, m, k), a1 = four(x, row + group + 8, at, m, k);
        const int a2 = four(x, row + group, at + 16, m, k), a3 = four(x, row + group + 8, at + 16, m, k);
        const int b0 = four(w, col + group, at, n, k), b1 = four(w, col + group, at + 16, n, k);
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    for (int e = 0; e < 4; ++e) {
        const int r = row + group + (e / 2) * 8, j = col + quad * 2 + e % 2;
        if (r < m && j < n) y[(long long)r * n + j] = __float2bfloat16((float)c[e] * xs[r] * ws[j]);
    }
}
""")


def run(x, weight, x_scale, weight_scale):
    (m, k), n = x.shape, weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = ((n + 7) // 8, (m + 15) // 16)
    module.launch("gemm", grid=grid, block=32, args=(x, weight, x_scale, weight_scale, y, m, n, k))
    return y
