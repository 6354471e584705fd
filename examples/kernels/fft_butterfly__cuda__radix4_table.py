"""Radix-4 passes with four points a thread in registers, exchanged in shared memory; twiddles from a table."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void table(float2* __restrict__ roots, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sn, cs;
    sincospif(-2.0f * (float)i / (float)n, &sn, &cs);
    roots[i] = make_float2(cs, sn);
}
__device__ __forceinline__ float2 turn(float2 v, float2 w) { return make_float2(v.x * w.x - v.y * w.y, v.x * w.y + v.y * w.x); }
// A team of n / 4 threads has a row; teams of small rows share a block.
extern "C" __global__ void transform(const float* __restrict__ real, const float* __restrict__ imag, const float2* __restrict__ roots, float* __restrict__ out_real, float* __restrict__ out_imag, float scale, int rows, int n) {
    extern __shared__ float2 room[];
    int quarter = n / 4, t = threadIdx.x % quarter, team = threadIdx.x / quarter;
    long long row = (long long)blockIdx.x * (blockDim.x / quarter) + team;
    float2* mine = room + team * n;
    bool live = row < rows;
    long long base = row * n;
    float2 v[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = live ? make_float2(real[base + t + i * quarter], imag[base + t + i * quarter]) : make_float2(0.0f, 0.0f);
    int span = 1;
    while (true) {
        int k = t & (span - 1), step = quarter / span;
        if (span > 1) {
            v[1] = turn(v[1], __ldg(roots + k * step));
            v[2] = turn(v[2], __ldg(roots + 2 * k * step));
            v[3] = turn(v[3], __ldg(roots + 3 * k * step));
        }
        float2 s = make_float2(v[0].x + v[2].x, v[0].y + v[2].y), d = make_float2(v[0].x - v[2].x, v[0].y - v[2].y);
        float2 p = make_float2(v[1].x + v[3].x, v[1].y + v[3].y), q = make_float2(v[1].y - v[3].y, v[3].x - v[1].x);
        int to = 4 * (t - k) + k;
        __syncthreads();
        mine[to] = make_float2(s.x + p.x, s.y + p.y);
        mine[to + span] = make_float2(d.x + q.x, d.y + q.y);
        mine[to + 2 * span] = make_float2(s.x - p.x, s.y - p.y);
        mine[to + 3 * span] = make_float2(d.x - q.x, d.y - q.y);
        __syncthreads();
        span *= 4;
        if (span * 4 > n) break;
        #pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = mine[t + i * quarter];
    }
    if (span < n) {
        // An odd power of two ends with one radix-2 pass: two butterflies a thread.
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            int k = t + i * quarter;
            float2 a = mine[k], w = turn(mine[k + n / 2], __ldg(roots + k));
            v[i] = make_float2(a.x + w.x, a.y + w.y);
            v[i + 2] = make_float2(a.x - w.x, a.y - w.y);
        }
    } else {
        #pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = mine[t + i * quarter];
    }
    if (live) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) { out_real[base + t + i * quarter] = v[i].x * scale; out_imag[base + t + i * quarter] = v[i].y * scale; }
    }
}
""")


def run(real, imag):
    rows, n = real.shape
    out_real = torch.empty_like(real)
    out_imag = torch.empty_like(imag)
    roots = torch.empty((n, 2), device=real.device, dtype=torch.float32)
    teams = max(1, 256 // (n // 4))
    module.launch("table", grid=(n + 127) // 128, block=128, args=(roots, n))
    args = (real, imag, roots, out_real, out_imag, 1.0 / math.sqrt(n), rows, n)
    module.launch(
        "transform", grid=(rows + teams - 1) // teams, block=teams * (n // 4), args=args, shared_bytes=8 * n * teams
    )
    return out_real, out_imag
