"""The transform by its definition, n squared work: eight rows share each root of unity looked up in shared memory."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define ROWS 8
extern "C" __global__ void transform(const float* __restrict__ real, const float* __restrict__ imag, float* __restrict__ out_real, float* __restrict__ out_imag, float scale, int rows, int n) {
    extern __shared__ __align__(16) float2 room[];
    float2* roots = room;
    float2* x = room + n;
    long long first = (long long)blockIdx.x * ROWS;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float sn, cs;
        sincospif(-2.0f * (float)i / (float)n, &sn, &cs);
        roots[i] = make_float2(cs, sn);
        // A point's eight rows lie together.
        for (int r = 0; r < ROWS; ++r) {
            bool ok = first + r < rows;
            x[i * ROWS + r] = ok ? make_float2(real[(first + r) * n + i], imag[(first + r) * n + i]) : make_float2(0.0f, 0.0f);
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < n; k += blockDim.x) {
        float re[ROWS], im[ROWS];
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) { re[r] = 0.0f; im[r] = 0.0f; }
        int at = 0;
        for (int i = 0; i < n; ++i) {
            float2 w = roots[at];
            at = (at + k) & (n - 1);
            #pragma unroll
            for (int r = 0; r < ROWS; r += 2) {
                float4 v = *(const float4*)(x + i * ROWS + r);
                re[r] += v.x * w.x - v.y * w.y;
                im[r] += v.x * w.y + v.y * w.x;
                re[r + 1] += v.z * w.x - v.w * w.y;
                im[r + 1] += v.z * w.y + v.w * w.x;
            }
        }
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (first + r < rows) { out_real[(first + r) * n + k] = re[r] * scale; out_imag[(first + r) * n + k] = im[r] * scale; }
        }
    }
}
""")


def run(real, imag):
    rows, n = real.shape
    out_real = torch.empty_like(real)
    out_imag = torch.empty_like(imag)
    args = (real, imag, out_real, out_imag, 1.0 / math.sqrt(n), rows, n)
    module.launch("transform", grid=(rows + 7) // 8, block=256, args=args, shared_bytes=72 * n)
    return out_real, out_imag
